// What a rank has put into the memory of its tensors so far: how much, and its checksum as a part of the whole tensor,
// both told from where in memory it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/state_dict.h"

namespace shoal::checkpoint {

class PlacedElements {
 public:
  struct Sum {
    std::int64_t bytes = 0;
    std::uint32_t crc = 0;  // what the bytes add to the checksum of the whole tensor (crc32c_share())
  };

  explicit PlacedElements(std::vector<ShardedTensor*> tensors);  // null: nothing is placed there

  // `bytes` bytes at `at`, within the region of tensor `index`; `crc` is their CRC-32C.
  void add(std::size_t index, const std::byte* at, std::int64_t bytes, std::uint32_t crc);

  const std::vector<ShardedTensor*>& tensors() const { return tensors_; }
  const Sum& of(std::size_t index) const { return sums_[index]; }
  std::uint64_t hash() const;  // equal where the same bytes were placed in the same tensors

 private:
  std::vector<ShardedTensor*> tensors_;
  std::vector<Sum> sums_;
};

}  // namespace shoal::checkpoint
