#include <gtest/gtest.h>
#include <torch/torch.h>

#include "models/registry.h"

namespace shoal::models {
namespace {

data::Batch random_batch(std::int64_t n) {
  torch::manual_seed(1);
  return {torch::randn({n, 1, 28, 28}), torch::randint(10, {n}, torch::kLong)};
}

TEST(TwoStackCnn, IsTwoStacksSummed) {
  const auto model = find_model("two-stack-cnn").make({.seed = 1});
  const auto p = model->module()->named_parameters();
  const data::Batch batch = random_batch(6);
  const auto stack = [&](const std::string& name) {
    const at::Tensor seen = torch::relu(torch::conv2d(batch.inputs, p[name + ".conv.weight"], p[name + ".conv.bias"]));
    return torch::nn::functional::linear(seen.flatten(1), p[name + ".fc.weight"], p[name + ".fc.bias"]);
  };
  const at::Tensor probabilities = torch::softmax(stack("stack1") + stack("stack2"), 1);
  const at::Tensor expected = -probabilities.gather(1, batch.targets.unsqueeze(1)).log().sum();
  const LossSum loss = model->loss(batch);
  EXPECT_EQ(loss.count, 6);
  EXPECT_NEAR(loss.sum.item<double>(), expected.item<double>(), 1e-4);
  const EvalSum eval = model->evaluate(batch);
  EXPECT_FLOAT_EQ(eval.loss_sum, loss.sum.item<double>());
  EXPECT_EQ(eval.correct, probabilities.argmax(1).eq(batch.targets).sum().item<std::int64_t>());
}

TEST(TwoStackCnn, HasNoOtherParameters) {
  const auto model = find_model("two-stack-cnn").make({.seed = 1});
  std::int64_t elements = 0;
  for (const at::Tensor& p : model->module()->parameters()) elements += p.numel();
  EXPECT_EQ(elements, 401812);
  EXPECT_EQ(model->module()->parameters().size(), 8);
}

TEST(TwoStackCnn, LearnsWithTheLecturesOptimizer) {
  const ModelEntry& entry = find_model("two-stack-cnn");
  const auto model = entry.make({.seed = 1});
  torch::optim::Adam adam(model->module()->parameters(), entry.defaults.learning_rate);
  const data::Batch batch = random_batch(20);
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    adam.zero_grad();
    const at::Tensor loss = model->loss(batch).sum / 20;
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->module()->parameters(), 0.1);
    adam.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first / 2);
}

}  // namespace
}  // namespace shoal::models
