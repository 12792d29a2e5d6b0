#include "models/rope.h"

#include <torch/torch.h>

#include <numbers>

namespace shoal::models {
namespace {

// Llama 3.1 was trained on sequences of 8192 tokens before it was made to take longer ones. Waves of which more than
// four fit into those are kept, those longer than the whole are stretched by the factor, and between the two the
// frequency goes over smoothly. The rule and its constants are Meta's (llama-models, apply_scaling).
constexpr double kTrainedLength = 8192, kFewWaves = 1, kManyWaves = 4;

at::Tensor stretch(const at::Tensor& frequency, double factor) {
  const at::Tensor waves = kTrainedLength / (2 * std::numbers::pi / frequency);
  const at::Tensor kept = ((waves - kFewWaves) / (kManyWaves - kFewWaves)).clamp(0, 1);
  return (1 - kept) * frequency / factor + kept * frequency;
}

at::Tensor frequencies(const RopeRule& rule, const at::TensorOptions& fp32) {
  const at::Tensor exponent = at::arange(0, rule.head_size, 2, fp32) / static_cast<double>(rule.head_size);
  const at::Tensor frequency = 1.0 / at::pow(rule.theta, exponent);
  return rule.scaling == 1 ? frequency : stretch(frequency, rule.scaling);
}

}  // namespace

RopeTables rope_tables(const RopeRule& rule, std::int64_t positions, const at::Tensor& like) {
  const at::TensorOptions fp32 = like.options().dtype(at::kFloat);
  const at::Tensor angle = at::outer(at::arange(positions, fp32), frequencies(rule, fp32)).repeat({1, 2});
  return {angle.cos().to(like.scalar_type()), angle.sin().to(like.scalar_type())};
}

}  // namespace shoal::models
