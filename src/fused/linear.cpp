#include "fused/linear.h"

#include <torch/torch.h>

#include "core/check.h"
#include "fused/operators.h"
#include "fused/products.h"

namespace shoal::fused {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout) {
  if (layout == WeightLayout::out_in) return at::linear(x, weight, bias);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(1);
  const at::Tensor rows = x.reshape({-1, weight.size(0)});
  return (bias.defined() ? at::addmm(bias, rows, weight) : at::mm(rows, weight)).view(sizes);
}

bool takes(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& residual,
           WeightLayout layout) {
  if (!is_for_kernels(x) || x.dim() == 0 || weight.dim() != 2 || weight.numel() == 0 || !are_like(x, {weight}))
    return false;
  const bool out_in = layout == WeightLayout::out_in;
  const std::int64_t in = weight.size(out_in ? 1 : 0), out = weight.size(out_in ? 0 : 1);
  if (x.size(-1) != in) return false;
  if (bias.defined() && !(bias.sizes() == at::IntArrayRef{out} && are_like(x, {bias}))) return false;
  if (!residual.defined()) return true;
  return residual.dim() == x.dim() && residual.size(-1) == out && are_like(x, {residual}) &&
         residual.sizes().slice(0, residual.dim() - 1) == x.sizes().slice(0, x.dim() - 1);
}

OptionalTensor given(const at::Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; }

WeightLayout layout_of(bool in_out) { return in_out ? WeightLayout::in_out : WeightLayout::out_in; }

at::Tensor linear_cuda(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& residual, bool in_out) {
  return products::linear(x, weight, bias.value_or(at::Tensor()), residual.value_or(at::Tensor()), layout_of(in_out));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_backward_cuda(const at::Tensor& grad, const OptionalTensor& x,
                                                                    const OptionalTensor& weight, bool in_out,
                                                                    bool with_bias) {
  auto [of_x, of_weight, of_bias] = products::linear_backward(
      grad, x.value_or(at::Tensor()), weight.value_or(at::Tensor()), layout_of(in_out), with_bias, products::kFastest);
  return {of_x, of_weight, of_bias};
}

const auto& linear_operator() {
  static const auto op = operator_named<decltype(linear_cuda)>("shoal::linear");
  return op;
}

const auto& linear_backward_operator() {
  static const auto op = operator_named<decltype(linear_backward_cuda)>("shoal::linear_backward");
  return op;
}

// Its gradients are numbered by the tensors that there are: x, weight, then bias and residual where given.
class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const OptionalTensor& bias, const OptionalTensor& residual, bool in_out) {
    const at::AutoDispatchBelowADInplaceOrView below;
    // Only what the gradients that are wanted are made of.
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), x.requires_grad() ? weight : at::Tensor()});
    ctx->saved_data["in_out"] = in_out;
    ctx->saved_data["bias"] = bias.has_value() && bias->defined();
    ctx->saved_data["residual"] = residual.has_value() && residual->defined();
    return linear_operator().call(x, weight, bias, residual, in_out);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    SHOAL_CHECK(!at::GradMode::is_enabled(), InternalError, "shoal::linear: its gradient has no gradient");
    const at::AutoDispatchBelowADInplaceOrView below;
    const bool has_bias = ctx->saved_data["bias"].toBool(), has_residual = ctx->saved_data["residual"].toBool();
    const bool of_x = ctx->needs_input_grad(0), of_weight = ctx->needs_input_grad(1);
    const variable_list saved = ctx->get_saved_variables();
    const auto [dx, dweight, dbias] = linear_backward_operator().call(
        grads[0], given(of_weight ? saved[0] : at::Tensor()), given(of_x ? saved[1] : at::Tensor()),
        ctx->saved_data["in_out"].toBool(), has_bias && ctx->needs_input_grad(2));
    return {dx, dweight, dbias, has_residual ? grads[0] : at::Tensor(), at::Tensor()};
  }
};

at::Tensor linear_autograd(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                           const OptionalTensor& residual, bool in_out) {
  return Linear::apply(x, weight, bias, residual, in_out);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def("linear(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, bool in_out) -> Tensor");
  library.def(
      "linear_backward(Tensor grad, Tensor? x, Tensor? weight, bool in_out, bool with_bias) -> (Tensor, Tensor, "
      "Tensor)");
}
TORCH_LIBRARY_IMPL(shoal, CUDA, library) {
  library.impl("linear", &linear_cuda);
  library.impl("linear_backward", &linear_backward_cuda);
}
TORCH_LIBRARY_IMPL(shoal, Meta, library) {
  library.impl("linear", &linear_cuda);
  library.impl("linear_backward", &linear_backward_cuda);
}
TORCH_LIBRARY_IMPL(shoal, Autograd, library) { library.impl("linear", &linear_autograd); }

at::Tensor reference::linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& residual, WeightLayout layout) {
  const at::Tensor y = product(x, weight, bias, layout);
  return residual.defined() ? residual + y : y;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& residual,
                  WeightLayout layout) {
  if (!takes(x, weight, bias, residual, layout)) return reference::linear(x, weight, bias, residual, layout);
  return linear_operator().call(x, weight, given(bias), given(residual), layout == WeightLayout::in_out);
}

}  // namespace shoal::fused
