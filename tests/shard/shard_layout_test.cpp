#include "shard/shard_layout.h"

#include <gtest/gtest.h>

#include <random>

#include "core/error.h"

namespace shoal {
namespace {

TEST(Range, Intersect) {
  EXPECT_EQ(intersect({0, 10}, {5, 10}), (Range{5, 5}));
  EXPECT_EQ(intersect({5, 10}, {0, 10}), (Range{5, 5}));
  EXPECT_EQ(intersect({0, 10}, {2, 3}), (Range{2, 3}));
  EXPECT_EQ(intersect({0, 5}, {5, 5}).count, 0) << "neighbours do not meet";
  EXPECT_EQ(intersect({0, 5}, {9, 5}).count, 0);
  EXPECT_EQ(intersect({3, 0}, {0, 10}).count, 0) << "an empty range meets nothing";
}

TEST(ShardLayout, AnExampleByHand) {
  const ShardLayout layout({5, 3, 4}, 3);  // 12 elements: 0-4 | 5-7 | 8-11; shards of 4
  EXPECT_EQ(layout.numel(), 12);
  EXPECT_EQ(layout.shard_numel(), 4);
  EXPECT_EQ(layout.tensor(1), (Range{5, 3}));
  EXPECT_EQ(layout.slice(0, 0).count, 4);
  EXPECT_EQ(layout.slice(0, 1).tensor_begin, 4);
  EXPECT_EQ(layout.slice(0, 1).shard_begin, 0);
  EXPECT_EQ(layout.slice(0, 1).count, 1);
  EXPECT_EQ(layout.slice(1, 1).shard_begin, 1);
  EXPECT_EQ(layout.slice(1, 1).count, 3);
  EXPECT_EQ(layout.slice(1, 0).count, 0);
  EXPECT_EQ(layout.slice(2, 2).count, 4);
}

TEST(ShardLayout, MoreRanksThanElements) {
  const ShardLayout layout({2}, 5);
  EXPECT_EQ(layout.shard_numel(), 1);
  EXPECT_EQ(layout.padded_numel(), 5);
  EXPECT_EQ(layout.slice(0, 1).count, 1);
  for (int rank = 2; rank < 5; ++rank) EXPECT_EQ(layout.slice(0, rank).count, 0) << rank;
}

TEST(ShardLayout, NothingToShard) {
  EXPECT_EQ(ShardLayout({}, 3).padded_numel(), 0);
  const ShardLayout empty_tensor({0, 7, 0}, 2);
  EXPECT_EQ(empty_tensor.numel(), 7);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(empty_tensor.slice(2, rank).count, 0);
}

TEST(ShardLayout, BeyondTwoToThe31) {
  const std::int64_t big = (std::int64_t{1} << 33) + 1;
  const ShardLayout layout({big, big}, 7, 32);
  EXPECT_GE(layout.padded_numel(), 2 * big);
  EXPECT_EQ(layout.slice(1, 6).tensor_begin + layout.slice(1, 6).count, big);
}

TEST(ShardLayout, NonsenseIsRefused) {
  EXPECT_THROW(ShardLayout({1}, 0), InternalError);
  EXPECT_THROW(ShardLayout({1}, 1, 0), InternalError);
  EXPECT_THROW(ShardLayout({-1}, 1), InternalError);
}

struct Case {
  int ranks;
  std::int64_t alignment;
};

class ShardLayoutProperty : public ::testing::TestWithParam<Case> {
 protected:
  std::vector<std::int64_t> random_numels() {
    std::vector<std::int64_t> numels(std::uniform_int_distribution<std::size_t>(0, 12)(generator_));
    for (auto& n : numels) n = std::uniform_int_distribution<std::int64_t>(0, 97)(generator_);
    return numels;
  }

 private:
  std::mt19937 generator_{2024};
};

TEST_P(ShardLayoutProperty, ShardsAreEqualAlignedAndNoLargerThanNeeded) {
  const auto [ranks, alignment] = GetParam();
  for (int trial = 0; trial < 200; ++trial) {
    const ShardLayout layout(random_numels(), ranks, alignment);
    EXPECT_EQ(layout.shard_numel() % alignment, 0);
    EXPECT_GE(layout.padded_numel(), layout.numel());
    EXPECT_LT(layout.padded_numel() - layout.numel(), ranks * alignment);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(layout.shard(rank), (Range{rank * layout.shard_numel(), layout.shard_numel()}));
    }
  }
}

// Each element of each tensor lies in exactly one shard, at the place that the flat buffer gives it.
TEST_P(ShardLayoutProperty, SlicesCoverEachTensorOnceInOrder) {
  const auto [ranks, alignment] = GetParam();
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<std::int64_t> numels = random_numels();
    const ShardLayout layout(numels, ranks, alignment);
    ASSERT_EQ(layout.tensors(), numels.size());
    for (std::size_t t = 0; t < numels.size(); ++t) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const TensorSlice slice = layout.slice(t, rank);
        if (slice.count == 0) continue;
        EXPECT_EQ(slice.tensor_begin, next);
        EXPECT_EQ(layout.shard(rank).begin + slice.shard_begin, layout.tensor(t).begin + slice.tensor_begin);
        EXPECT_LE(slice.shard_begin + slice.count, layout.shard_numel());
        next += slice.count;
      }
      EXPECT_EQ(next, numels[t]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardLayoutProperty,
                         ::testing::Values(Case{1, 1}, Case{2, 1}, Case{3, 1}, Case{5, 1}, Case{7, 4}, Case{13, 1},
                                           Case{16, 32}, Case{97, 8}),
                         [](const auto& test) {
                           return "ranks" + std::to_string(test.param.ranks) + "align" +
                                  std::to_string(test.param.alignment);
                         });

}  // namespace
}  // namespace shoal
