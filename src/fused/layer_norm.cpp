#include "fused/layer_norm.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/torch.h>

#include <optional>
#include <tuple>

#include "fused/norm_rows.h"
#include "fused/operators.h"

namespace shoal::fused {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Normed = std::tuple<Tensor, Tensor, Tensor>;               // normed, mean, rstd
using AddedNormed = std::tuple<Tensor, Tensor, Tensor, Tensor>;  // sum, normed, mean, rstd
using Gradients = std::tuple<Tensor, Tensor, Tensor>;            // of what was normed, of weight, of bias

TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def("layer_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> (Tensor, Tensor, Tensor)");
  library.def(
      "add_layer_norm(Tensor x, Tensor y, Tensor weight, Tensor bias, float epsilon)"
      " -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "layer_norm_backward(Tensor grad, Tensor? grad_sum, Tensor x, Tensor mean, Tensor rstd, Tensor weight,"
      " bool parameters) -> (Tensor, Tensor, Tensor)");
}

Normed call(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  static const auto op =
      operator_named<Normed(const Tensor&, const Tensor&, const Tensor&, double)>("shoal::layer_norm");
  return op.call(x, weight, bias, epsilon);
}

AddedNormed call_add(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias, double epsilon) {
  static const auto op =
      operator_named<AddedNormed(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double)>(
          "shoal::add_layer_norm");
  return op.call(x, y, weight, bias, epsilon);
}

Gradients call_backward(const Tensor& grad, const std::optional<Tensor>& grad_sum, const NormContext& context,
                        bool parameters) {
  static const auto op =
      operator_named<Gradients(const Tensor&, const std::optional<Tensor>&, const Tensor&, const Tensor&, const Tensor&,
                               const Tensor&, bool)>("shoal::layer_norm_backward");
  return op.call(grad, grad_sum, context.x, context.mean, context.rstd, context.weight, parameters);
}

NormContext context_of(const AutogradContext& ctx) {
  variable_list saved = ctx.get_saved_variables();
  return {.x = saved[0], .mean = saved[1], .rstd = saved[2], .weight = saved[3]};
}

struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Tensor& bias,
                               double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [normed, mean, rstd] = call(x, weight, bias, epsilon);
    ctx->save_for_backward({x, mean, rstd, weight});
    ctx->mark_non_differentiable({mean, rstd});
    ctx->set_materialize_grads(false);
    return {normed, mean, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return {{}, {}, {}, {}};
    const bool parameters = ctx->needs_input_grad(1) || ctx->needs_input_grad(2);
    const auto [dx, dweight, dbias] = call_backward(grads[0], std::nullopt, context_of(*ctx), parameters);
    return {dx, dweight, dbias, {}};
  }
};

struct AddLayerNorm : torch::autograd::Function<AddLayerNorm> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& y, const Tensor& weight,
                               const Tensor& bias, double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [sum, normed, mean, rstd] = call_add(x, y, weight, bias, epsilon);
    ctx->save_for_backward({sum, mean, rstd, weight});
    ctx->mark_non_differentiable({mean, rstd});
    ctx->set_materialize_grads(false);
    return {sum, normed, mean, rstd};
  }

  // Where the sum alone was used its gradient passes through.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[1].defined()) return {grads[0], grads[0], {}, {}, {}};
    const std::optional<Tensor> grad_sum = grads[0].defined() ? std::optional(grads[0]) : std::nullopt;
    const bool parameters = ctx->needs_input_grad(2) || ctx->needs_input_grad(3);
    const auto [dx, dweight, dbias] = call_backward(grads[1], grad_sum, context_of(*ctx), parameters);
    return {dx, dx, dweight, dbias, {}};
  }
};

Normed layer_norm_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const variable_list out = LayerNorm::apply(x, weight, bias, epsilon);
  return {out[0], out[1], out[2]};
}

AddedNormed add_layer_norm_autograd(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias,
                                    double epsilon) {
  const variable_list out = AddLayerNorm::apply(x, y, weight, bias, epsilon);
  return {out[0], out[1], out[2], out[3]};
}

TORCH_LIBRARY_IMPL(shoal, Autograd, library) {
  library.impl("layer_norm", &layer_norm_autograd);
  library.impl("add_layer_norm", &add_layer_norm_autograd);
  library.impl("layer_norm_backward", torch::autograd::autogradNotImplementedFallback());
}

Normed layer_norm_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const NormResult result = norm_forward_rows(x, {}, weight, bias, epsilon, /*centred=*/true);
  return {result.normed, result.mean, result.rstd};
}

AddedNormed add_layer_norm_cuda(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias,
                                double epsilon) {
  const NormResult result = norm_forward_rows(x, y, weight, bias, epsilon, /*centred=*/true);
  return {result.sum, result.normed, result.mean, result.rstd};
}

Gradients layer_norm_backward_cuda(const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x,
                                   const Tensor& mean, const Tensor& rstd, const Tensor& weight, bool parameters) {
  const NormContext context{.x = x, .mean = mean, .rstd = rstd, .weight = weight};
  const NormGradients result = norm_backward_rows(grad, grad_sum.value_or(Tensor()), context, parameters);
  return {result.x, result.weight, result.bias};
}

TORCH_LIBRARY_IMPL(shoal, CUDA, library) {
  library.impl("layer_norm", &layer_norm_cuda);
  library.impl("add_layer_norm", &add_layer_norm_cuda);
  library.impl("layer_norm_backward", &layer_norm_backward_cuda);
}
TORCH_LIBRARY_IMPL(shoal, Meta, library) {
  library.impl("layer_norm", &layer_norm_cuda);
  library.impl("add_layer_norm", &add_layer_norm_cuda);
  library.impl("layer_norm_backward", &layer_norm_backward_cuda);
}

}  // namespace

namespace reference {

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                                 const at::Tensor& bias, double epsilon) {
  const at::Tensor sum = x + y;
  return {sum, layer_norm(sum, weight, bias, epsilon)};
}

}  // namespace reference

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  if (!norm_takes(x, {}, weight, bias)) return reference::layer_norm(x, weight, bias, epsilon);
  return std::get<0>(call(x, weight, bias, epsilon));
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                                 const at::Tensor& bias, double epsilon) {
  if (!norm_takes(x, y, weight, bias)) return reference::add_layer_norm(x, y, weight, bias, epsilon);
  const AddedNormed result = call_add(x, y, weight, bias, epsilon);
  return {std::get<0>(result), std::get<1>(result)};
}

}  // namespace shoal::fused
