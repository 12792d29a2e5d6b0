#include "fused/norms_cases.h"

#include <fmt/format.h>

#include <tuple>

#include "fused/layer_norm.h"
#include "fused/operators.h"
#include "fused/rms_norm.h"

namespace shoal::testing {
namespace {

using at::Tensor;

Tensor exact_leaf(const Tensor& values) {
  return values.defined() ? values.detach().to(at::kCPU, at::kDouble).requires_grad_() : values;
}

NormOutputs operator_layer_norm(const NormCase& c, const NormInputs& in) {
  if (c.add) {
    const auto op = fused::operator_named<std::tuple<Tensor, Tensor, Tensor, Tensor>(
        const Tensor&, const Tensor&, const Tensor&, const Tensor&, double)>("shoal::add_layer_norm");
    const auto out = op.call(in.x, in.y, in.weight, in.bias, kNormEpsilon);
    return {std::get<0>(out), std::get<1>(out)};
  }
  const auto op =
      fused::operator_named<std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, double)>(
          "shoal::layer_norm");
  return {in.x, std::get<0>(op.call(in.x, in.weight, in.bias, kNormEpsilon))};
}

NormOutputs operator_rms_norm(const NormCase& c, const NormInputs& in) {
  if (c.add) {
    const auto op =
        fused::operator_named<std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, double)>(
            "shoal::add_rms_norm");
    const auto out = op.call(in.x, in.y, in.weight, kNormEpsilon);
    return {std::get<0>(out), std::get<1>(out)};
  }
  const auto op =
      fused::operator_named<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, double)>("shoal::rms_norm");
  return {in.x, std::get<0>(op.call(in.x, in.weight, kNormEpsilon))};
}

}  // namespace

std::string NormCase::name() const {
  return fmt::format("{}{} of {} x {} in {}, seed {}", add ? "add_" : "", centred ? "layer_norm" : "rms_norm", rows,
                     width, c10::toString(type), seed);
}

NormInputs norm_inputs(const NormCase& c, at::Device device) {
  at::Generator generator = at::detail::createCPUGenerator(c.seed);
  const auto values = [&](at::IntArrayRef sizes, double scale, double shift) {
    return (at::randn(sizes, generator, at::kFloat) * scale + shift).to(device, c.type).requires_grad_();
  };
  return {.x = values({c.rows, c.width}, 2, 0.5),
          .y = c.add ? values({c.rows, c.width}, 1, -0.25) : Tensor(),
          .weight = values({c.width}, 0.3, 1),
          .bias = c.centred ? values({c.width}, 0.3, 0) : Tensor()};
}

NormInputs exact(const NormInputs& inputs) {
  return {exact_leaf(inputs.x), exact_leaf(inputs.y), exact_leaf(inputs.weight), exact_leaf(inputs.bias)};
}

NormOutputs fused_norm(const NormCase& c, const NormInputs& in) {
  if (!c.add)
    return {in.x, c.centred ? fused::layer_norm(in.x, in.weight, in.bias, kNormEpsilon)
                            : fused::rms_norm(in.x, in.weight, kNormEpsilon)};
  const auto [sum, normed] = c.centred ? fused::add_layer_norm(in.x, in.y, in.weight, in.bias, kNormEpsilon)
                                       : fused::add_rms_norm(in.x, in.y, in.weight, kNormEpsilon);
  return {sum, normed};
}

NormOutputs reference_norm(const NormCase& c, const NormInputs& in) {
  const Tensor sum = c.add ? in.x + in.y : in.x;
  return {sum, c.centred ? at::layer_norm(sum, {c.width}, in.weight, in.bias, kNormEpsilon)
                         : at::rms_norm(sum, {c.width}, in.weight, kNormEpsilon)};
}

NormOutputs operator_norm(const NormCase& c, const NormInputs& in) {
  return c.centred ? operator_layer_norm(c, in) : operator_rms_norm(c, in);
}

}  // namespace shoal::testing
