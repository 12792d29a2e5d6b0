// Memory for copies of what is being saved, in pieces of kChunkBytes that are kept from save to save.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace shoal::checkpoint {

class StagingPool {
 public:
  // Makes a piece: kChunkBytes on a page's boundary; pinned where a GPU is to fill it. Empty: memory of the host.
  using Allocate = std::function<std::shared_ptr<std::byte>()>;

  explicit StagingPool(Allocate allocate = {});

  // Null where `limit` bytes are in use already; two pieces are never refused. For one thread at a time.
  std::shared_ptr<std::byte> take(std::int64_t limit);
  void give_back(std::shared_ptr<std::byte> piece);

 private:
  Allocate allocate_;
  std::vector<std::shared_ptr<std::byte>> free_;
  std::int64_t in_use_ = 0;  // pieces
};

}  // namespace shoal::checkpoint
