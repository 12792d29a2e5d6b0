#include "fused/rms_norm.h"

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

using Normed = std::tuple<Tensor, Tensor>;               // normed, rstd
using AddedNormed = std::tuple<Tensor, Tensor, Tensor>;  // sum, normed, rstd
using Gradients = std::tuple<Tensor, Tensor>;            // of what was normed, of weight

TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> (Tensor, Tensor)");
  library.def("add_rms_norm(Tensor x, Tensor y, Tensor weight, float epsilon) -> (Tensor, Tensor, Tensor)");
  library.def(
      "rms_norm_backward(Tensor grad, Tensor? grad_sum, Tensor x, Tensor rstd, Tensor weight, bool parameters)"
      " -> (Tensor, Tensor)");
}

Normed call(const Tensor& x, const Tensor& weight, double epsilon) {
  static const auto op = operator_named<Normed(const Tensor&, const Tensor&, double)>("shoal::rms_norm");
  return op.call(x, weight, epsilon);
}

AddedNormed call_add(const Tensor& x, const Tensor& y, const Tensor& weight, double epsilon) {
  static const auto op =
      operator_named<AddedNormed(const Tensor&, const Tensor&, const Tensor&, double)>("shoal::add_rms_norm");
  return op.call(x, y, weight, epsilon);
}

Gradients call_backward(const Tensor& grad, const std::optional<Tensor>& grad_sum, const AutogradContext& ctx,
                        bool parameters) {
  static const auto op = operator_named<Gradients(const Tensor&, const std::optional<Tensor>&, const Tensor&,
                                                  const Tensor&, const Tensor&, bool)>("shoal::rms_norm_backward");
  const variable_list saved = ctx.get_saved_variables();
  return op.call(grad, grad_sum, saved[0], saved[1], saved[2], parameters);
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [normed, rstd] = call(x, weight, epsilon);
    ctx->save_for_backward({x, rstd, weight});
    ctx->mark_non_differentiable({rstd});
    ctx->set_materialize_grads(false);
    return {normed, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return {{}, {}, {}};
    const auto [dx, dweight] = call_backward(grads[0], std::nullopt, *ctx, ctx->needs_input_grad(1));
    return {dx, dweight, {}};
  }
};

struct AddRmsNorm : torch::autograd::Function<AddRmsNorm> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& y, const Tensor& weight,
                               double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [sum, normed, rstd] = call_add(x, y, weight, epsilon);
    ctx->save_for_backward({sum, rstd, weight});
    ctx->mark_non_differentiable({rstd});
    ctx->set_materialize_grads(false);
    return {sum, normed, rstd};
  }

  // Where the sum alone was used its gradient passes through.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[1].defined()) return {grads[0], grads[0], {}, {}};
    const std::optional<Tensor> grad_sum = grads[0].defined() ? std::optional(grads[0]) : std::nullopt;
    const auto [dx, dweight] = call_backward(grads[1], grad_sum, *ctx, ctx->needs_input_grad(2));
    return {dx, dx, dweight, {}};
  }
};

Normed rms_norm_autograd(const Tensor& x, const Tensor& weight, double epsilon) {
  const variable_list out = RmsNorm::apply(x, weight, epsilon);
  return {out[0], out[1]};
}

AddedNormed add_rms_norm_autograd(const Tensor& x, const Tensor& y, const Tensor& weight, double epsilon) {
  const variable_list out = AddRmsNorm::apply(x, y, weight, epsilon);
  return {out[0], out[1], out[2]};
}

TORCH_LIBRARY_IMPL(shoal, Autograd, library) {
  library.impl("rms_norm", &rms_norm_autograd);
  library.impl("add_rms_norm", &add_rms_norm_autograd);
  library.impl("rms_norm_backward", torch::autograd::autogradNotImplementedFallback());
}

Normed rms_norm_cuda(const Tensor& x, const Tensor& weight, double epsilon) {
  const NormResult result = norm_forward_rows(x, {}, weight, {}, epsilon, /*centred=*/false);
  return {result.normed, result.rstd};
}

AddedNormed add_rms_norm_cuda(const Tensor& x, const Tensor& y, const Tensor& weight, double epsilon) {
  const NormResult result = norm_forward_rows(x, y, weight, {}, epsilon, /*centred=*/false);
  return {result.sum, result.normed, result.rstd};
}

Gradients rms_norm_backward_cuda(const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x,
                                 const Tensor& rstd, const Tensor& weight, bool parameters) {
  const NormContext context{.x = x, .mean = {}, .rstd = rstd, .weight = weight};
  const NormGradients result = norm_backward_rows(grad, grad_sum.value_or(Tensor()), context, parameters);
  return {result.x, result.weight};
}

TORCH_LIBRARY_IMPL(shoal, CUDA, library) {
  library.impl("rms_norm", &rms_norm_cuda);
  library.impl("add_rms_norm", &add_rms_norm_cuda);
  library.impl("rms_norm_backward", &rms_norm_backward_cuda);
}
TORCH_LIBRARY_IMPL(shoal, Meta, library) {
  library.impl("rms_norm", &rms_norm_cuda);
  library.impl("add_rms_norm", &add_rms_norm_cuda);
  library.impl("rms_norm_backward", &rms_norm_backward_cuda);
}

}  // namespace

namespace reference {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, weight.sizes(), weight, epsilon);
}

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                               double epsilon) {
  const at::Tensor sum = x + y;
  return {sum, rms_norm(sum, weight, epsilon)};
}

}  // namespace reference

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (!norm_takes(x, {}, weight, {})) return reference::rms_norm(x, weight, epsilon);
  return std::get<0>(call(x, weight, epsilon));
}

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                               double epsilon) {
  if (!norm_takes(x, y, weight, {})) return reference::add_rms_norm(x, y, weight, epsilon);
  const AddedNormed result = call_add(x, y, weight, epsilon);
  return {std::get<0>(result), std::get<1>(result)};
}

}  // namespace shoal::fused
