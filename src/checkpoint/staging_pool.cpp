#include "checkpoint/staging_pool.h"

#include <cstdlib>
#include <new>

#include "core/file_io.h"
#include "core/logging.h"

namespace shoal::checkpoint {
namespace {

std::shared_ptr<std::byte> host_piece() {
  constexpr std::size_t kPage = 4096;
  void* const memory = std::aligned_alloc(kPage, kChunkBytes);
  if (memory == nullptr) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

StagingPool::StagingPool(Allocate allocate) : allocate_(allocate ? std::move(allocate) : host_piece) {}

StagingPool::~StagingPool() {
  if (reserving_.valid()) reserving_.wait();
}

void StagingPool::reserve(std::int64_t bytes) {
  reserving_ = std::async(std::launch::async, [this, bytes] { make_pieces(bytes); });
}

void StagingPool::make_pieces(std::int64_t bytes) noexcept {
  try {
    for (std::int64_t made = 0; made < bytes; made += kChunkBytes) free_.push_back(allocate_());
  } catch (const std::exception& error) {
    log::warning("staging memory for checkpoints is made when it is needed: {}", error.what());
  }
}

std::shared_ptr<std::byte> StagingPool::take(std::int64_t limit) {
  if (reserving_.valid()) reserving_.get();
  constexpr std::int64_t kNeverRefused = 2;
  if (in_use_ >= kNeverRefused && (in_use_ + 1) * kChunkBytes > limit) return nullptr;
  std::shared_ptr<std::byte> piece;
  if (free_.empty()) {
    piece = allocate_();
  } else {
    piece = std::move(free_.back());
    free_.pop_back();
  }
  ++in_use_;
  return piece;
}

void StagingPool::give_back(std::shared_ptr<std::byte> piece) {
  free_.push_back(std::move(piece));
  --in_use_;
}

}  // namespace shoal::checkpoint
