// The built-in models on a GPU, where their building blocks are fused kernels, against the same weights on the CPU,
// where they are LibTorch's own operators.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "models/registry.h"
#include "support/gpu.h"

namespace shoal::models {
namespace {

// Nothing is a multiple of what kernels like.
constexpr std::int64_t kVocabulary = 259, kLength = 45, kSamples = 3;

ModelOptions small(double dropout) {
  return {.seed = 3,
          .layers = 2,
          .heads = 4,
          .hidden_size = 128,
          .vocab_size = kVocabulary,
          .max_positions = kLength,
          .dropout = dropout};
}

std::unique_ptr<Model> make(const std::string& name, double dropout = 0) {
  const ModelEntry& entry = find_model(name);
  std::unique_ptr<Model> model = entry.make(complete(entry, small(dropout)));
  // Far from the small first values, where nearly everything is linear.
  const at::NoGradGuard no_grad;
  for (at::Tensor& p : model->module()->parameters())
    if (p.dim() == 2) p.mul_(4);
  return model;
}

// Places that are not to be predicted, counted or not.
data::Batch batch(bool all, bool counted) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  data::Batch made{at::randint(kVocabulary, {kSamples, kLength}, generator, at::kLong),
                   at::randint(kVocabulary, {kSamples, kLength}, generator, at::kLong)};
  if (!all) made.targets[1].slice(0, 2, 9).fill_(-100);
  if (counted) made.predicted = made.targets.ne(-100).sum().item<std::int64_t>();
  return made;
}

data::Batch on(const data::Batch& batch, at::Device device) {
  return {batch.inputs.to(device), batch.targets.to(device), batch.predicted};
}

struct Result {
  double loss = 0;
  std::int64_t count = 0;
  std::map<std::string, at::Tensor> gradients;
};

Result run(Model& model, const data::Batch& batch) {
  const LossSum loss = model.loss(batch);
  loss.sum.backward();
  Result result{loss.sum.item<double>(), loss.count, {}};
  for (const auto& item : model.module()->named_parameters())
    result.gradients[item.key()] = item.value().grad().to(at::kCPU, at::kDouble);
  return result;
}

// Some gradients (a key's bias) would be zero but for rounding: what is small beside the largest counts as a hundredth
// of it.
void expect_close(const Result& got, const Result& expected, double loss_bound, double bound) {
  EXPECT_EQ(got.count, expected.count);
  EXPECT_NEAR(got.loss, expected.loss, loss_bound * expected.loss);
  double largest = 0;
  for (const auto& [name, gradient] : expected.gradients) largest = std::max(largest, gradient.norm().item<double>());
  for (const auto& [name, gradient] : expected.gradients) {
    const double norm = std::max(gradient.norm().item<double>(), 1e-2 * largest);
    EXPECT_LE((got.gradients.at(name) - gradient).norm().item<double>() / norm, bound) << name;
  }
}

class GpuModels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    SHOAL_SKIP_WITHOUT_GPU();
    testing::poison_gpu_memory();
  }

  // On the GPU in `type`, and on the CPU in float64 with the weights that `type` has left of the first ones.
  static void compare(at::ScalarType type, const data::Batch& batch, double loss_bound, double bound) {
    const auto there = make(GetParam()), here = make(GetParam());
    there->module()->to(at::kCUDA, type);
    here->module()->to(type);
    here->module()->to(at::kDouble);
    expect_close(run(*there, on(batch, at::kCUDA)), run(*here, batch), loss_bound, bound);
  }
};

TEST_P(GpuModels, Fp32IsTheCpus) {
  for (const bool all : {true, false})
    for (const bool counted : {true, false}) compare(at::kFloat, batch(all, counted), 1e-5, 1e-3);
}

TEST_P(GpuModels, Bf16IsWithinItsRounding) { compare(at::kBFloat16, batch(true, true), 5e-3, 6e-2); }

TEST_P(GpuModels, Fp16IsWithinItsRounding) { compare(at::kHalf, batch(true, true), 1e-3, 1.5e-2); }

TEST_P(GpuModels, EvaluateGivesTheLoss) {
  const auto model = make(GetParam());
  model->module()->to(at::kCUDA, at::kBFloat16);
  const data::Batch data = on(batch(false, true), at::kCUDA);
  const EvalSum eval = model->evaluate(data);
  const LossSum loss = model->loss(data);
  EXPECT_EQ(eval.count, loss.count);
  EXPECT_NEAR(eval.loss_sum, loss.sum.item<double>(), 1e-3 * eval.loss_sum);
}

TEST_P(GpuModels, DropsOutInTraining) {
  const auto model = make(GetParam(), 0.25);
  model->module()->to(at::kCUDA, at::kBFloat16);
  model->module()->train();
  const data::Batch data = on(batch(true, true), at::kCUDA);
  const Result first = run(*model, data), second = run(*model, data);
  EXPECT_TRUE(std::isfinite(first.loss));
  EXPECT_NE(first.loss, second.loss);
}

INSTANTIATE_TEST_SUITE_P(All, GpuModels, ::testing::Values("gpt2-tiny", "llama-tiny", "bert-tiny"),
                         [](const auto& model) { return model.param.substr(0, model.param.find('-')); });

}  // namespace
}  // namespace shoal::models
