// Memory for copies of what is being saved, in pieces of kChunkBytes that are kept from save to save.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <vector>

namespace shoal::checkpoint {

class StagingPool {
 public:
  // Makes a piece: kChunkBytes on a page's boundary; pinned where a GPU is to fill it. Empty: memory of the host.
  using Allocate = std::function<std::shared_ptr<std::byte>()>;

  explicit StagingPool(Allocate allocate = {});
  ~StagingPool();  // waits for what reserve() makes

  // Makes pieces of `bytes` bytes together ahead, on a thread of its own, so that the first save need not: pinning
  // takes longer than copying. What there is no memory for is left to take().
  void reserve(std::int64_t bytes);
  // Null where `limit` bytes are in use already; two pieces are never refused. For one thread at a time.
  std::shared_ptr<std::byte> take(std::int64_t limit);
  void give_back(std::shared_ptr<std::byte> piece);

 private:
  void make_pieces(std::int64_t bytes) noexcept;

  Allocate allocate_;
  std::vector<std::shared_ptr<std::byte>> free_;
  std::int64_t in_use_ = 0;  // pieces
  std::future<void> reserving_;
};

}  // namespace shoal::checkpoint
