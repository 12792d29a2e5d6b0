#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace shoal::data {
namespace {

// What all ranks together take in one step, micro-step by micro-step, rank by rank.
std::vector<std::int64_t> step_samples(Sampler& sampler, const SamplePosition& position, std::int64_t global_batch,
                                       int ranks, int micro_steps) {
  std::vector<std::int64_t> all;
  const Range step = sampler.step_range(position, global_batch);
  for (int micro = 0; micro < micro_steps; ++micro) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto part = sampler.samples(position.epoch, part_of(part_of(step, micro, micro_steps), rank, ranks));
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(PartOf, CutsEvenlyAndLosesNothing) {
  for (const std::int64_t count : {0, 1, 2, 7, 64, 65}) {
    for (const std::int64_t parts : {1, 2, 3, 5, 70}) {
      std::int64_t next = 10;
      for (std::int64_t index = 0; index < parts; ++index) {
        const Range part = part_of({10, count}, index, parts);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.count, count / parts);
        EXPECT_LE(part.count, (count + parts - 1) / parts);
        next = part.end();
      }
      EXPECT_EQ(next, 10 + count);
    }
  }
}

TEST(Permutation, HoldsEverySampleOnceAndDependsOnSeedAndEpoch) {
  for (const std::int64_t size : {1, 2, 3, 100, 1009}) {
    std::vector<std::int64_t> order = permutation(size, 5, 3);
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < size; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_EQ(permutation(100, 5, 3), permutation(100, 5, 3));
  EXPECT_NE(permutation(100, 5, 3), permutation(100, 5, 4));
  EXPECT_NE(permutation(100, 5, 3), permutation(100, 6, 3));
}

// The order is part of what a run means: a change here would break the restart of every run there is. The numbers are
// those of the Python in docs/training.md.
TEST(Permutation, IsTheSameForEver) {
  EXPECT_EQ(permutation(10, 1, 0), (std::vector<std::int64_t>{7, 0, 1, 2, 6, 5, 3, 8, 9, 4}));
  EXPECT_EQ(permutation(10, 1, 1), (std::vector<std::int64_t>{5, 1, 9, 8, 0, 6, 7, 3, 2, 4}));
}

// Each of the 6 orders of 3 samples should come up in a sixth of the epochs: chi-square with 5 degrees of freedom is
// below 20.5 with probability 0.999, and the numbers are always the same.
TEST(Permutation, IsUniform) {
  std::map<std::vector<std::int64_t>, int> seen;
  constexpr int kEpochs = 6000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++seen[permutation(3, 1, epoch)];
  ASSERT_EQ(seen.size(), 6u);
  double chi_square = 0;
  for (const auto& [order, count] : seen) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 20.5);
}

TEST(Sampler, AnEpochUsesEverySampleOnce) {
  for (const bool shuffle : {true, false}) {
    for (const std::int64_t size : {1, 5, 64, 101}) {
      for (const std::int64_t batch : {1, 3, 64, 1000}) {
        Sampler sampler(size, 9, shuffle);
        SamplePosition position{.epoch = 2, .consumed = 0};
        std::vector<std::int64_t> seen;
        while (position.epoch == 2) {
          const auto samples = step_samples(sampler, position, batch, 3, 2);
          seen.insert(seen.end(), samples.begin(), samples.end());
          position = sampler.advance(position, batch);
        }
        EXPECT_EQ(position, (SamplePosition{3, 0}));
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(size));
        EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size());
        EXPECT_TRUE(shuffle || std::is_sorted(seen.begin(), seen.end()));
      }
    }
  }
}

TEST(Sampler, AStepHasTheSameSamplesAtAnyNumberOfRanks) {
  Sampler sampler(1009, 4, true);
  for (SamplePosition position; position.epoch < 2; position = sampler.advance(position, 96)) {
    const auto expected = step_samples(sampler, position, 96, 1, 1);
    for (const int ranks : {2, 3, 5, 7, 96, 100}) {
      EXPECT_EQ(step_samples(sampler, position, 96, ranks, 1), expected) << ranks << " ranks";
      EXPECT_EQ(step_samples(sampler, position, 96, ranks, 3), expected) << ranks << " ranks, 3 micro-steps";
    }
  }
}

// Stopped anywhere and continued with another batch size and number of ranks, an epoch is still each sample once.
TEST(Sampler, ContinuesFromAnyPositionWithAnyBatch) {
  constexpr std::int64_t kSize = 103;
  for (std::int64_t stop_after = 1; stop_after < 13; ++stop_after) {
    Sampler before(kSize, 4, true), after(kSize, 4, true);
    SamplePosition position;
    std::vector<std::int64_t> seen;
    for (std::int64_t step = 0; step < stop_after; ++step, position = before.advance(position, 8)) {
      const auto samples = step_samples(before, position, 8, 2, 1);
      seen.insert(seen.end(), samples.begin(), samples.end());
    }
    for (; position.epoch == 0; position = after.advance(position, 15)) {
      const auto samples = step_samples(after, position, 15, 5, 1);
      seen.insert(seen.end(), samples.begin(), samples.end());
    }
    EXPECT_EQ(seen, permutation(kSize, 4, 0)) << "stopped after " << stop_after << " steps";
  }
}

}  // namespace
}  // namespace shoal::data
