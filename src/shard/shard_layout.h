// How a flat buffer of tensors is cut among ranks: pure arithmetic, in elements.
//
// The tensors of one unit lie one after the other in a flat buffer of `numel` elements, padded at the end to
// `shard_numel() * ranks`. Rank r holds [r * shard_numel, (r + 1) * shard_numel): every shard has the same size, as
// the collectives want it, and shards past the end of the data are padding alone ("empty").
#pragma once

#include <cstdint>
#include <vector>

namespace shoal {

struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t end() const { return begin + count; }
  bool operator==(const Range&) const = default;
};

Range intersect(Range a, Range b);  // count 0 where they do not meet

// Where one tensor lies in a rank's shard.
struct TensorSlice {
  std::int64_t tensor_begin = 0;  // first element of the flattened tensor that the rank holds
  std::int64_t shard_begin = 0;   // where that element lies in the rank's shard
  std::int64_t count = 0;         // 0: the rank holds nothing of it
};

class ShardLayout {
 public:
  // `alignment` (elements): shard sizes are a multiple of it, so that shards start on vector boundaries.
  ShardLayout(std::vector<std::int64_t> tensor_numels, int ranks, std::int64_t alignment = 1);

  int ranks() const { return ranks_; }
  std::int64_t numel() const { return numel_; }
  std::int64_t shard_numel() const { return shard_numel_; }
  std::int64_t padded_numel() const { return shard_numel_ * ranks_; }
  std::size_t tensors() const { return offsets_.size(); }
  Range tensor(std::size_t index) const { return {offsets_[index], numels_[index]}; }
  Range shard(int rank) const { return {rank * shard_numel_, shard_numel_}; }
  TensorSlice slice(std::size_t index, int rank) const;

 private:
  std::vector<std::int64_t> numels_, offsets_;
  int ranks_;
  std::int64_t numel_ = 0, shard_numel_ = 0;
};

}  // namespace shoal
