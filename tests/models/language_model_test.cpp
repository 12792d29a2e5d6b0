// What holds for GPT-2, Llama and BERT alike: losses, gradients, tying, precision.
#include "models/language_model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <set>
#include <string>

#include "core/error.h"
#include "models/registry.h"

namespace shoal::models {
namespace {

constexpr std::int64_t kVocabulary = 61, kLength = 12, kSamples = 3, kNone = -100;

ModelOptions small() {
  return {.seed = 3,
          .layers = 2,
          .heads = 4,
          .hidden_size = 32,
          .vocab_size = kVocabulary,
          .max_positions = kLength,
          .dropout = 0};
}

class LanguageModelTest : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<LanguageModel> make(const ModelOptions& given = small()) {
    const ModelEntry& entry = find_model(GetParam());
    std::unique_ptr<Model> model = entry.make(complete(entry, given));
    return std::unique_ptr<LanguageModel>(&dynamic_cast<LanguageModel&>(*model.release()));
  }

  // Some places of the second sample are not to be predicted.
  static data::Batch batch() {
    torch::manual_seed(1);
    data::Batch made{torch::randint(kVocabulary, {kSamples, kLength}, torch::kLong),
                     torch::randint(kVocabulary, {kSamples, kLength}, torch::kLong)};
    made.targets[1].slice(0, 2, 9).fill_(kNone);
    return made;
  }
};

// The sum over all places, written out in fp64.
double cross_entropy_by_hand(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor exact = logits.detach().to(torch::kDouble);
  double sum = 0;
  for (std::int64_t i = 0; i < targets.size(0); ++i) {
    for (std::int64_t t = 0; t < targets.size(1); ++t) {
      const auto target = targets[i][t].item<std::int64_t>();
      if (target == kNone) continue;
      sum += std::log(exact[i][t].exp().sum().item<double>()) - exact[i][t][target].item<double>();
    }
  }
  return sum;
}

TEST_P(LanguageModelTest, LossIsTheSumOfCrossEntropies) {
  const auto model = make();
  const data::Batch data = batch();
  const LossSum loss = model->loss(data);
  EXPECT_EQ(loss.count, kSamples * kLength - 7);
  const double expected = cross_entropy_by_hand(model->logits(data.inputs), data.targets);
  EXPECT_NEAR(loss.sum.item<double>(), expected, 1e-6 * expected);
  EXPECT_NEAR(expected / static_cast<double>(loss.count), std::log(kVocabulary), 0.2) << "untrained: all tokens alike";
}

TEST_P(LanguageModelTest, EvaluateGivesTheSameLossAndCountsWhatIsRight) {
  const auto model = make();
  data::Batch data = batch();
  const at::Tensor best = model->logits(data.inputs).argmax(-1);
  data.targets[0].copy_(best[0]);
  const EvalSum eval = model->evaluate(data);
  EXPECT_FLOAT_EQ(eval.loss_sum, model->loss(data).sum.item<double>());
  EXPECT_EQ(eval.count, kSamples * kLength - 7);
  EXPECT_EQ(eval.correct, best.eq(data.targets).sum().item<std::int64_t>());
  EXPECT_GE(eval.correct, kLength);
}

TEST_P(LanguageModelTest, EveryParameterGetsAGradient) {
  for (const bool untied : {false, true}) {
    ModelOptions options = small();
    options.untied_head = untied;
    const auto model = make(options);
    model->loss(batch()).sum.backward();
    for (const auto& item : model->module()->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
    }
  }
}

TEST_P(LanguageModelTest, WithoutAnyTargetTheLossIsZeroAndSoAreTheGradients) {
  const auto model = make();
  data::Batch data = batch();
  data.targets.fill_(kNone);
  const LossSum loss = model->loss(data);
  EXPECT_EQ(loss.count, 0);
  EXPECT_EQ(loss.sum.item<double>(), 0);
  loss.sum.backward();
  for (const auto& item : model->module()->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
  EXPECT_EQ(model->evaluate(data).loss_sum, 0);
}

TEST_P(LanguageModelTest, OnlyBertLooksAhead) {
  const auto model = make();
  const at::Tensor tokens = batch().inputs;
  const at::Tensor before = model->logits(tokens);
  at::Tensor changed = tokens.clone();
  changed.select(1, 7) = (changed.select(1, 7) + 1) % kVocabulary;
  const at::Tensor change = (model->logits(changed) - before).abs().amax({0, 2});
  const double earlier = change.slice(0, 0, 7).max().item<double>();
  if (GetParam() == "bert-tiny")
    EXPECT_GT(change.min().item<double>(), 0);
  else
    EXPECT_LT(earlier, 1e-6);
  EXPECT_GT(change.slice(0, 7).min().item<double>(), 1e-4);
}

TEST_P(LanguageModelTest, ATiedHeadIsTheEmbeddingItself) {
  std::set<const void*> different;
  std::int64_t tied = 0, untied = 0;
  const auto count = [](Model& model, std::int64_t& elements) {
    std::set<const void*> seen;
    for (const at::Tensor& p : model.module()->parameters())
      if (seen.insert(p.unsafeGetTensorImpl()).second) elements += p.numel();
  };
  count(*make(), tied);
  ModelOptions options = small();
  options.untied_head = true;
  count(*make(options), untied);
  EXPECT_EQ(untied - tied, kVocabulary * small().hidden_size);
}

TEST_P(LanguageModelTest, LossesOf16BitModelsAreFp32) {
  const auto model = make();
  model->module()->eval();
  const double exact = model->loss(batch()).sum.item<double>();
  model->module()->to(torch::kBFloat16);
  const LossSum loss = model->loss(batch());
  EXPECT_EQ(loss.sum.scalar_type(), torch::kFloat);
  EXPECT_NEAR(loss.sum.item<double>(), exact, 1e-3 * exact) << "bf16 keeps 8 bits of each logit; most errors cancel";
  loss.sum.backward();
  for (const at::Tensor& p : model->module()->parameters()) EXPECT_EQ(p.grad().scalar_type(), torch::kBFloat16);
}

TEST_P(LanguageModelTest, DropoutWorksInTrainModeOnly) {
  ModelOptions options = small();
  options.dropout = 0.3;
  const auto model = make(options);
  const data::Batch data = batch();
  model->module()->train();
  EXPECT_NE(model->loss(data).sum.item<double>(), model->loss(data).sum.item<double>());
  model->module()->eval();
  EXPECT_EQ(model->loss(data).sum.item<double>(), model->loss(data).sum.item<double>());
}

TEST_P(LanguageModelTest, ALongerSequenceThanTheModelsIsAnErrorThatNamesTheOptions) {
  const auto model = make();
  try {
    model->logits(torch::zeros({1, kLength + 1}, torch::kLong));
    FAIL();
  } catch (const OptionError& error) {
    EXPECT_STREQ(error.what(),
                 "--sequence-length 13: the model takes at most 12 tokens; give a shorter one, or a "
                 "larger --max-positions");
  }
  EXPECT_EQ(model->logits(torch::zeros({1, 5}, torch::kLong)).sizes(), (std::vector<std::int64_t>{1, 5, kVocabulary}));
}

TEST_P(LanguageModelTest, InitialWeightsDependOnSeedAndNameAlone) {
  torch::manual_seed(1);
  const auto one = make();
  torch::manual_seed(2);
  ModelOptions deeper = small();
  deeper.layers = 3;
  const auto other = make(deeper);
  const auto theirs = other->module()->named_parameters();
  for (const auto& item : one->module()->named_parameters()) {
    if (item.key().ends_with("c_proj.weight")) continue;  // GPT-2 scales them by the depth
    EXPECT_TRUE(at::equal(item.value(), theirs[item.key()])) << item.key();
  }
  ModelOptions reseeded = small();
  reseeded.seed = 4;
  const auto third = make(reseeded);
  EXPECT_FALSE(at::equal(third->module()->parameters()[0], one->module()->parameters()[0]));
}

INSTANTIATE_TEST_SUITE_P(All, LanguageModelTest, testing::Values("gpt2-tiny", "llama-tiny", "bert-tiny"),
                         [](const auto& model) { return model.param.substr(0, model.param.find('-')); });

}  // namespace
}  // namespace shoal::models
