// Collectives over MPI, on host memory.
//
// MPI_THREAD_FUNNELED is enough: all calls come from the thread that initialised MPI. Data move as point-to-point
// messages between all pairs and are reduced here as local_reduce() does: the result does not depend on the order of
// arrival, 16-bit floats need no operator of MPI's, a time-out can name the ranks that did not come, and no call of MPI
// ever sees a count near 2^31. What no order of additions can change, small data to broadcast, and small data among
// many ranks go through MPI's own trees.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/process_group.h"
#include "core/unique_handle.h"

namespace shoal::comm {

struct MpiCommTraits {
  using Handle = MPI_Comm;
  static Handle invalid() noexcept { return MPI_COMM_NULL; }
  static void close(Handle comm) noexcept;
};
using UniqueMpiComm = UniqueHandle<MpiCommTraits>;

enum class MessageKind;

struct MpiOptions {
  std::int64_t max_message_bytes = std::int64_t{1} << 29;  // longer ones are sent in pieces
  // Up to so many, small things take a message between each two ranks, which tells who is late; with more, MPI's trees.
  int few_ranks = 64;
};

class MpiProcessGroup final : public ProcessGroup {
 public:
  // Collective over `comm`, which is duplicated: the group's messages never meet those of the caller.
  explicit MpiProcessGroup(MPI_Comm comm, MpiOptions options = {});
  ~MpiProcessGroup() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "mpi"; }
  std::unique_ptr<Work> all_gather(const void* send, void* recv, std::int64_t count, DType dtype) override;
  std::unique_ptr<Work> reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype, ReduceOp op) override;
  std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override;
  std::unique_ptr<Work> broadcast(void* data, std::int64_t count, DType dtype, int root) override;
  std::unique_ptr<Work> all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) override;
  void barrier() override;
  // For libraries that speak MPI themselves, on duplicates of it: messages on it are the group's own.
  MPI_Comm communicator() const { return comm_.get(); }
  const std::string& host_of(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<ProcessGroup> split(int color, const GroupOptions& options = {}) override;

 private:
  friend class MpiExchange;

  int next_tag();
  void learn_hosts();
  // The part of all_gather() and all_to_all() that is the same: peer r sends its part for this rank to out + r * bytes,
  // and gets what is at in + r * stride.
  std::unique_ptr<Work> exchange_parts(MessageKind kind, const std::byte* in, std::int64_t stride, std::byte* out,
                                       std::int64_t bytes);
  // Sends the part at send + r * stride bytes to each rank r, and reduces what comes into `recv`.
  std::unique_ptr<Work> reduce_parts(MessageKind kind, void* send, std::int64_t stride, void* recv, std::int64_t count,
                                     DType dtype, ReduceOp op);

  UniqueMpiComm comm_;
  MpiOptions options_;
  int rank_ = 0, size_ = 1;
  int tag_ = 0, tag_limit_ = 32767;
  std::vector<std::string> hosts_;               // of each rank
  std::vector<std::vector<std::byte>> scratch_;  // receive buffers kept for the next reduction
};

}  // namespace shoal::comm
