#include "shard/shard_layout.h"

#include <algorithm>

#include "core/check.h"

namespace shoal {

Range intersect(Range a, Range b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  const std::int64_t end = std::min(a.end(), b.end());
  return end > begin ? Range{begin, end - begin} : Range{begin, 0};
}

ShardLayout::ShardLayout(std::vector<std::int64_t> tensor_numels, int ranks, std::int64_t alignment)
    : numels_(std::move(tensor_numels)), ranks_(ranks) {
  SHOAL_ASSERT(ranks >= 1 && alignment >= 1);
  offsets_.reserve(numels_.size());
  for (const std::int64_t n : numels_) {
    SHOAL_ASSERT(n >= 0);
    offsets_.push_back(numel_);
    numel_ += n;
  }
  const std::int64_t quantum = ranks_ * alignment;
  shard_numel_ = (numel_ + quantum - 1) / quantum * alignment;
}

TensorSlice ShardLayout::slice(std::size_t index, int rank) const {
  const Range here = intersect(tensor(index), shard(rank));
  if (here.count == 0) return {};
  return {here.begin - offsets_[index], here.begin - shard(rank).begin, here.count};
}

}  // namespace shoal
