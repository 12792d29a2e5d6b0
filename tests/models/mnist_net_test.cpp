#include <gtest/gtest.h>
#include <torch/torch.h>

#include "models/registry.h"

namespace shoal::models {
namespace {

data::Batch random_batch(std::int64_t n) {
  torch::manual_seed(1);
  return {torch::randn({n, 1, 28, 28}), torch::randint(10, {n}, torch::kLong)};
}

TEST(MnistNet, HasTheTutorialsParameters) {
  const auto model = find_model("mnist-net").make({.seed = 1});
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> expected = {
      {"conv1.weight", {32, 1, 3, 3}}, {"conv1.bias", {32}}, {"conv2.weight", {64, 32, 3, 3}}, {"conv2.bias", {64}},
      {"fc1.weight", {128, 9216}},     {"fc1.bias", {128}},  {"fc2.weight", {10, 128}},        {"fc2.bias", {10}}};
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> found;
  std::int64_t elements = 0;
  for (const auto& p : model->module()->named_parameters()) {
    found.emplace_back(p.key(), p.value().sizes().vec());
    elements += p.value().numel();
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(elements, 1199882);
}

TEST(MnistNet, LossIsASumOverSamples) {
  const auto model = find_model("mnist-net").make({.seed = 1});
  model->module()->eval();
  const data::Batch batch = random_batch(6);
  const LossSum whole = model->loss(batch);
  EXPECT_EQ(whole.count, 6);
  double parts = 0;
  for (int i = 0; i < 6; i += 2)
    parts += model->loss({batch.inputs.slice(0, i, i + 2), batch.targets.slice(0, i, i + 2)}).sum.item<double>();
  EXPECT_NEAR(whole.sum.item<double>(), parts, 1e-4);
  EXPECT_NEAR(whole.sum.item<double>() / 6, std::log(10.0), 0.3) << "untrained: all classes alike";
}

TEST(MnistNet, EvaluateCountsWhatIsRight) {
  const auto model = find_model("mnist-net").make({.seed = 1});
  model->module()->eval();
  const data::Batch batch = random_batch(50);
  const EvalSum eval = model->evaluate(batch);
  EXPECT_EQ(eval.count, 50);
  EXPECT_NEAR(eval.loss_sum, model->loss(batch).sum.item<double>(), 1e-3);
  std::int64_t correct = 0;
  for (int label = 0; label < 10; ++label) {
    const at::Tensor same = torch::full({50}, label, torch::kLong);
    const EvalSum as_label = model->evaluate({batch.inputs, same});
    correct += as_label.correct;
  }
  EXPECT_EQ(correct, 50) << "each sample has exactly one most probable class";
}

TEST(MnistNet, DropoutWorksInTrainModeOnly) {
  const auto model = find_model("mnist-net").make({.seed = 1});
  const data::Batch batch = random_batch(4);
  model->module()->train();
  EXPECT_NE(model->loss(batch).sum.item<double>(), model->loss(batch).sum.item<double>());
  model->module()->eval();
  EXPECT_EQ(model->loss(batch).sum.item<double>(), model->loss(batch).sum.item<double>());
}

}  // namespace
}  // namespace shoal::models
