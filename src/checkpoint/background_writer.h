// Writes one rank's shard file on a thread of its own, from copies that it makes first, so that training goes on
// meanwhile. Neither HDF5, MPI nor NCCL is called there.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "checkpoint/shard_output.h"
#include "checkpoint/staging_pool.h"
#include "core/timer.h"

namespace shoal::checkpoint {

// `bytes` bytes from byte `offset` of a region, wherever its memory is.
void read_region(const Region& region, std::int64_t offset, std::byte* to, std::size_t bytes);

class BackgroundWriter {
 public:
  // With `stage_bytes` > 0 the regions are copied as fast as memory allows, up to so many bytes ahead of the file. With
  // 0, those in host memory are written straight from there. Until wait_copied() has returned, the regions must not
  // change; `pool` has no other user meanwhile.
  BackgroundWriter(ShardOutput output, StateDict state, StagingPool& pool, std::int64_t stage_bytes);
  // Where the writing is not done it ends early, with the file unfinished.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  void wait_copied();  // or until the writing failed, of which finish() tells
  bool done() const { return done_; }
  bool done_within(std::chrono::milliseconds limit);
  std::int64_t moves() const { return moves_; }  // grows while it gets on
  // Waits; throws what the writing threw. The output is finished then.
  const ShardOutput& finish();
  double seconds() const { return seconds_; }  // that it took, once it is done

 private:
  struct Piece {
    std::size_t region = 0;
    std::int64_t offset = 0;  // of the region
    std::size_t bytes = 0;
  };
  struct Chunk {
    std::shared_ptr<std::byte> memory;
    std::vector<Piece> pieces;  // one after the other
  };

  void run() noexcept;
  void write_all();
  void write_straight();
  void advance(std::size_t bytes);
  bool copies_left() const { return next_ < output_.regions().size(); }
  bool copy_chunk();  // false: there is no memory for one now
  void write_chunk();
  const Region& region(std::size_t index) const { return state_.tensors[output_.regions()[index].tensor].region; }
  void check_stop() const;
  void set(std::atomic<bool>& flag);
  void wait_for(const std::atomic<bool>& flag);

  ShardOutput output_;
  StateDict state_;
  StagingPool& pool_;
  std::int64_t stage_bytes_;
  const Timer timer_;
  // The thread's own.
  std::size_t next_ = 0;          // region to copy from
  std::int64_t next_offset_ = 0;  // in it
  std::deque<Chunk> staged_;
  double seconds_ = 0;
  std::exception_ptr error_;             // from here on: read once it is done
  std::atomic<std::int64_t> moves_ = 0;  // so that who waits can tell that it goes on
  std::atomic<bool> stop_ = false, copied_ = false, done_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // last: it works on the others
};

}  // namespace shoal::checkpoint
