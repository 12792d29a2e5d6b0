// The sampler and token data together: what all ranks see of an epoch.
#include <gtest/gtest.h>

#include <memory>

#include "data/loader.h"
#include "data/sampler.h"
#include "data/token_dataset.h"
#include "data_layer/batches.h"
#include "data_layer/temporary_folder.h"
#include "data_layer/token_bytes.h"

namespace shoal::data {
namespace {

constexpr std::int64_t kLength = 4, kSamples = 203;

class TokenOrder : public ::testing::Test {
 protected:
  // Sample i begins with the token 4 i, which tells it.
  TokenOrder() {
    const auto path = folder_.write("train.bin", bytes_of_tokens<std::uint16_t>(counting(0, kSamples * kLength + 1)));
    dataset_ = open_tokens({.path = path, .sequence_length = kLength, .vocab_size = 50257, .token_type = "uint16"},
                           Split::train);
  }

  // The samples of steps from `position` to the end of its epoch or `steps` steps, as `ranks` ranks load them, each
  // with a loader of its own; in the order in which a step has them. `position` moves on.
  std::vector<std::int64_t> trained(SamplePosition& position, std::int64_t global_batch, int ranks,
                                    std::int64_t steps) const {
    const Sampler plan(kSamples, 5, true);
    std::vector<Range> ranges;
    const std::int64_t epoch = position.epoch;
    for (; steps > 0 && position.epoch == epoch; --steps, position = plan.advance(position, global_batch))
      ranges.push_back(plan.step_range(position, global_batch));
    std::vector<std::vector<std::int64_t>> of_step(ranges.size());
    for (int rank = 0; rank < ranks; ++rank) {
      Loader loader(*dataset_, requests(ranges, epoch, rank, ranks), 2);
      for (std::size_t step = 0; step < ranges.size(); ++step) {
        if (part_of(ranges[step], rank, ranks).count == 0) continue;
        const std::vector<std::int64_t> tokens = values(loader.next().value().inputs);
        for (std::size_t i = 0; i < tokens.size(); i += kLength) of_step[step].push_back(tokens[i] / kLength);
      }
      EXPECT_FALSE(loader.next().has_value());
    }
    std::vector<std::int64_t> all;
    for (const auto& samples : of_step) all.insert(all.end(), samples.begin(), samples.end());
    return all;
  }

  static Loader::NextRequest requests(std::vector<Range> ranges, std::int64_t epoch, int rank, int ranks) {
    auto sampler = std::make_shared<Sampler>(kSamples, 5, true);
    return [=, step = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
      while (step < ranges.size()) {
        const auto samples = sampler->samples(epoch, part_of(ranges[step++], rank, ranks));
        if (!samples.empty()) return BatchRequest{epoch, {samples.begin(), samples.end()}};
      }
      return std::nullopt;
    };
  }

  TemporaryFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(TokenOrder, AnEpochIsTheSameSequenceOnAnyNumberOfRanksAndHasEachSampleOnce) {
  ASSERT_EQ(dataset_->size(), kSamples);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    for (const int ranks : {1, 2, 3, 8, 20}) {
      SamplePosition position{epoch, 0};
      EXPECT_EQ(trained(position, 16, ranks, kSamples), permutation(kSamples, 5, epoch)) << ranks << " ranks";
      EXPECT_EQ(position, (SamplePosition{epoch + 1, 0}));
    }
  }
}

TEST_F(TokenOrder, ARestartGoesOnAtTheExactSampleWithOtherRanksAndBatches) {
  for (std::int64_t stop_after = 1; stop_after < 12; ++stop_after) {
    SamplePosition position{1, 0};
    std::vector<std::int64_t> seen = trained(position, 16, 3, stop_after);
    const std::vector<std::int64_t> rest = trained(position, 10, 4, kSamples);
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(seen, permutation(kSamples, 5, 1)) << "stopped after " << stop_after << " steps";
  }
}

}  // namespace
}  // namespace shoal::data
