#include "data/masked_dataset.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/masking.h"
#include "data_layer/batches.h"
#include "data_layer/temporary_folder.h"
#include "data_layer/token_bytes.h"

namespace shoal::data {
namespace {

constexpr std::int64_t kVocabulary = 1000, kMask = 999;

MaskRule rule() { return {.vocab_size = kVocabulary, .mask_token = kMask, .special = {7, kMask}, .seed = 1}; }

// What docs/data.md gives in Python: the masks are part of what a run means.
TEST(Masking, IsTheSameForEver) {
  std::vector<std::int64_t> tokens = counting(100, 40), targets(40);
  MaskRule half = rule();
  half.probability = 0.5;
  mask_tokens(half, 2, 5, tokens, targets);
  std::vector<std::int64_t> changes;  // place, token, target
  for (std::int64_t i = 0; i < 40; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (targets[at] != kNotPredicted) changes.insert(changes.end(), {i, tokens[at], targets[at]});
  }
  EXPECT_EQ(changes, (std::vector<std::int64_t>{0,   999, 100, 3,   999, 103, 4,   999, 104, 6,   106, 106, 7,
                                                999, 107, 8,   999, 108, 9,   999, 109, 11,  999, 111, 12,  999,
                                                112, 15,  999, 115, 19,  119, 119, 20,  999, 120, 26,  999, 126,
                                                31,  681, 131, 34,  999, 134, 37,  999, 137, 39,  374, 139}));
}

// 15 % of the tokens, of which 80 % [MASK], 10 % any token, 10 % as they were: each share within four standard
// deviations of what it should be.
TEST(Masking, FollowsTheShares) {
  constexpr std::int64_t kTokens = 200000;
  std::vector<std::int64_t> tokens(kTokens, 500), targets(kTokens);
  mask_tokens(rule(), 0, 0, tokens, targets);
  double predicted = 0, masked = 0, kept = 0, random = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (targets[i] == kNotPredicted) {
      ASSERT_EQ(tokens[i], 500);
      continue;
    }
    ASSERT_EQ(targets[i], 500);
    ASSERT_TRUE(tokens[i] >= 0 && tokens[i] < kVocabulary);
    ++predicted;
    ++(tokens[i] == kMask ? masked : tokens[i] == 500 ? kept : random);
  }
  const auto expect_share = [](double count, double of, double share) {
    EXPECT_NEAR(count / of, share, 4 * std::sqrt(share * (1 - share) / of));
  };
  expect_share(predicted, kTokens, 0.15);
  expect_share(masked, predicted, 0.8 + 0.1 / kVocabulary);
  expect_share(kept, predicted, 0.1 + 0.1 / kVocabulary);
  expect_share(random, predicted, 0.1 - 0.2 / kVocabulary);
}

TEST(Masking, NeverPredictsSpecialTokens) {
  std::vector<std::int64_t> tokens(10000), targets(10000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = i % 2 == 0 ? 7 : kMask;
  const std::vector<std::int64_t> before = tokens;
  mask_tokens(rule(), 0, 0, tokens, targets);
  EXPECT_EQ(tokens, before);
  EXPECT_EQ(targets, std::vector<std::int64_t>(10000, kNotPredicted));
}

class MaskedDatasetTest : public ::testing::Test {
 protected:
  DataRequest request(std::int64_t tokens = 1000) const {
    return {.path = folder_.write("train.bin", bytes_of_tokens<std::uint16_t>(std::vector(tokens, std::int64_t{500}))),
            .sequence_length = 50,
            .vocab_size = kVocabulary,
            .token_type = "uint16",
            .special_tokens = {7},
            .seed = 1};
  }
  TemporaryFolder folder_;
};

TEST_F(MaskedDatasetTest, MasksDependOnSeedEpochAndSampleAlone) {
  const auto dataset = open_masked_tokens(request(), Split::train);
  ASSERT_EQ(dataset->size(), 20);
  const std::vector<std::int64_t> both{3, 4}, reversed{4, 3}, one{3};
  const auto inputs = [&](std::int64_t epoch, const std::vector<std::int64_t>& indices) {
    return values(dataset->epoch_batch(epoch, indices).inputs);
  };
  const auto first = inputs(1, both);
  const std::vector<std::int64_t> sample3(first.begin(), first.begin() + 50), sample4(first.begin() + 50, first.end());
  auto swapped = sample4;
  swapped.insert(swapped.end(), sample3.begin(), sample3.end());
  EXPECT_EQ(inputs(1, reversed), swapped);
  EXPECT_EQ(inputs(1, one), sample3);
  EXPECT_NE(inputs(2, one), sample3);
  EXPECT_NE(sample3, sample4);
  EXPECT_EQ(values(dataset->batch(one).inputs), inputs(0, one));
  DataRequest other = request();
  other.seed = 2;
  EXPECT_NE(values(open_masked_tokens(other, Split::train)->epoch_batch(1, one).inputs), sample3);
}

TEST_F(MaskedDatasetTest, MakesBatchesByTheRule) {
  const auto dataset = open_masked_tokens(request(), Split::train);
  const Batch batch = dataset->epoch_batch(3, std::vector<std::int64_t>{11, 12});
  EXPECT_EQ(batch.inputs.sizes(), (at::IntArrayRef{2, 50}));
  EXPECT_EQ(batch.targets.sizes(), (at::IntArrayRef{2, 50}));
  std::vector<std::int64_t> tokens(50, 500), targets(50);
  mask_tokens(rule(), 3, 11, tokens, targets);  // the mask token is the last of the vocabulary unless given
  const auto all_inputs = values(batch.inputs), all_targets = values(batch.targets);
  EXPECT_EQ(std::vector(all_inputs.begin(), all_inputs.begin() + 50), tokens);
  EXPECT_EQ(std::vector(all_targets.begin(), all_targets.begin() + 50), targets);
}

TEST_F(MaskedDatasetTest, BadRequestsAreNamed) {
  const auto open = [](const DataRequest& request) { return [=] { open_masked_tokens(request, Split::train); }; };
  const auto changed = [&](auto member, auto value) {
    DataRequest other = request();
    other.*member = value;
    return other;
  };
  expect_error<OptionError>(open(changed(&DataRequest::vocab_size, 0)), "--vocab-size");
  expect_error<OptionError>(open(changed(&DataRequest::mask_token, kVocabulary)),
                            "--mask-token 1000 is not in 0 … 999");
  expect_error<OptionError>(open(changed(&DataRequest::mask_probability, 0.0)), "--mask-probability 0");
  expect_error<OptionError>(open(changed(&DataRequest::mask_probability, 1.5)), "--mask-probability 1.5");
  expect_error<OptionError>(open(changed(&DataRequest::special_tokens, std::vector<std::int64_t>{-1})),
                            "special token");
  expect_error<DataError>(open(request(49)), "49 tokens are too few for one sample, which needs 50");
  EXPECT_EQ(open_masked_tokens(request(), Split::test), nullptr);
}

}  // namespace
}  // namespace shoal::data
