#include "checkpoint/background_writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/activity.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

struct Stopped {};

}  // namespace

void read_region(const Region& region, std::int64_t offset, std::byte* to, std::size_t bytes) {
  if (region.fetch)
    region.fetch(offset, to, bytes);
  else
    std::memcpy(to, region.data + offset, bytes);
}

BackgroundWriter::BackgroundWriter(ShardOutput output, StateDict state, StagingPool& pool, std::int64_t stage_bytes)
    : output_(std::move(output)), state_(std::move(state)), pool_(pool), stage_bytes_(stage_bytes), thread_([this] {
        run();
      }) {}

BackgroundWriter::~BackgroundWriter() {
  stop_ = true;
  thread_.join();
  for (Chunk& chunk : staged_) pool_.give_back(std::move(chunk.memory));
}

void BackgroundWriter::run() noexcept {
  try {
    write_all();
    output_.finish();
  } catch (const Stopped&) {
  } catch (...) {
    error_ = std::current_exception();
  }
  seconds_ = timer_.seconds();
  set(copied_);
  set(done_);
}

// Copying comes first, and checksums after it: training waits for the copies alone.
void BackgroundWriter::write_all() {
  while (copies_left() || !staged_.empty()) {
    check_stop();
    if (copies_left() && stage_bytes_ == 0 && region(next_).data != nullptr)
      write_straight();
    else if (!copies_left() || !copy_chunk())
      write_chunk();
    if (!copies_left()) set(copied_);
  }
}

void BackgroundWriter::write_straight() {
  const std::byte* data = region(next_).data + next_offset_;
  // As large as reads of it later are: the kernel then keeps it in large pieces of its page cache, which it reads
  // faster.
  const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, output_.regions()[next_].bytes - next_offset_));
  output_.add_to_checksum(next_, data, bytes);
  output_.write(next_, next_offset_, data, bytes);
  ++moves_;
  advance(bytes);
}

void BackgroundWriter::advance(std::size_t bytes) {
  next_offset_ += static_cast<std::int64_t>(bytes);
  if (next_offset_ < output_.regions()[next_].bytes) return;
  ++next_;
  next_offset_ = 0;
}

bool BackgroundWriter::copy_chunk() {
  Chunk chunk{pool_.take(stage_bytes_), {}};
  if (chunk.memory == nullptr) return false;
  std::int64_t used = 0;
  while (copies_left() && used < kChunkBytes) {
    const std::int64_t left = output_.regions()[next_].bytes - next_offset_;
    const Piece piece{next_, next_offset_, static_cast<std::size_t>(std::min(left, kChunkBytes - used))};
    read_region(region(next_), piece.offset, chunk.memory.get() + used, piece.bytes);
    chunk.pieces.push_back(piece);
    used += static_cast<std::int64_t>(piece.bytes);
    advance(piece.bytes);
  }
  staged_.push_back(std::move(chunk));
  ++moves_;
  return true;
}

void BackgroundWriter::write_chunk() {
  const std::byte* from = staged_.front().memory.get();
  for (const Piece& piece : staged_.front().pieces) {
    output_.add_to_checksum(piece.region, from, piece.bytes);
    output_.write(piece.region, piece.offset, from, piece.bytes);
    from += piece.bytes;
  }
  pool_.give_back(std::move(staged_.front().memory));
  staged_.pop_front();
  ++moves_;
}

void BackgroundWriter::check_stop() const {
  if (stop_) throw Stopped();
}

void BackgroundWriter::set(std::atomic<bool>& flag) {
  {
    const std::lock_guard lock(mutex_);
    flag = true;
  }
  changed_.notify_all();
}

// A slow disk is no hang: whoever watches this process sees that the writing moves.
void BackgroundWriter::wait_for(const std::atomic<bool>& flag) {
  std::unique_lock lock(mutex_);
  for (std::int64_t seen = moves_; !flag;) {
    changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return flag.load(); });
    if (seen == moves_) continue;
    seen = moves_;
    activity::progressed();
  }
}

void BackgroundWriter::wait_copied() { wait_for(copied_); }

bool BackgroundWriter::done_within(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return done_.load(); });
}

const ShardOutput& BackgroundWriter::finish() {
  wait_for(done_);
  if (error_) std::rethrow_exception(error_);
  return output_;
}

}  // namespace shoal::checkpoint
