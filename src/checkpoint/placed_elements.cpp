#include "checkpoint/placed_elements.h"

#include "core/crc32c.h"
#include "core/hash.h"

namespace shoal::checkpoint {

PlacedElements::PlacedElements(std::vector<ShardedTensor*> tensors)
    : tensors_(std::move(tensors)), sums_(tensors_.size()) {}

void PlacedElements::add(std::size_t index, const std::byte* at, std::int64_t bytes, std::uint32_t crc) {
  const ShardedTensor& tensor = *tensors_[index];
  const std::int64_t element = size_of(tensor.spec.dtype);
  const std::int64_t end = tensor.region.begin * element + (at - tensor.region.data) + bytes;
  const std::int64_t left = tensor.spec.numel() * element - end;
  Sum& sum = sums_[index];
  // What lies outside of the tensor makes a sum that no other rank's makes right.
  const bool outside = left < 0 || end < bytes;
  sum.bytes += outside ? tensor.spec.numel() * element + 1 : bytes;
  if (!outside) sum.crc ^= crc32c_share(crc, static_cast<std::uint64_t>(left));
}

std::uint64_t PlacedElements::hash() const {
  std::uint64_t hash = sums_.size();
  for (const Sum& sum : sums_) hash = hash_combine(hash_combine(hash, static_cast<std::uint64_t>(sum.bytes)), sum.crc);
  return hash;
}

}  // namespace shoal::checkpoint
