#include "fused/gelu_mlp.h"

#include <torch/torch.h>

#include "core/check.h"
#include "fused/operators.h"
#include "fused/products.h"

namespace shoal::fused {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

OptionalTensor given(const at::Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; }
at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }

bool takes(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual) {
  const at::Tensor &first = weights.weight_in, &second = weights.weight_out;
  if (!is_for_kernels(x) || x.dim() == 0 || first.dim() != 2 || second.dim() != 2 || first.numel() == 0 ||
      second.numel() == 0 || !weights.bias_in.defined() || !weights.bias_out.defined())
    return false;
  if (!are_like(x, {first, second, weights.bias_in, weights.bias_out})) return false;
  const bool out_in = weights.layout == WeightLayout::out_in;
  const std::int64_t in = first.size(out_in ? 1 : 0), inner = first.size(out_in ? 0 : 1);
  const std::int64_t inner_too = second.size(out_in ? 1 : 0), out = second.size(out_in ? 0 : 1);
  if (x.size(-1) != in || inner != inner_too || weights.bias_in.sizes() != at::IntArrayRef{inner} ||
      weights.bias_out.sizes() != at::IntArrayRef{out} || in != out)
    return false;
  return !residual.defined() || (residual.sizes() == x.sizes() && are_like(x, {residual}));
}

// With what backward needs: y and the first product.
products::MlpForward run(const at::Tensor& x, const MlpWeights& weights, const OptionalTensor& residual, bool keep) {
  return products::gelu_mlp(x, weights, or_undefined(residual), keep, products::kFastest);
}

MlpWeights weights_of(const at::Tensor& weight_in, const at::Tensor& bias_in, const at::Tensor& weight_out,
                      const at::Tensor& bias_out, bool in_out) {
  return {weight_in, bias_in, weight_out, bias_out, in_out ? WeightLayout::in_out : WeightLayout::out_in};
}

at::Tensor gelu_mlp_cuda(const at::Tensor& x, const at::Tensor& weight_in, const at::Tensor& bias_in,
                         const at::Tensor& weight_out, const at::Tensor& bias_out, const OptionalTensor& residual,
                         bool in_out) {
  return run(x, weights_of(weight_in, bias_in, weight_out, bias_out, in_out), residual, /*keep=*/false).y;
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Gradients gelu_mlp_backward_cuda(const at::Tensor& grad, const OptionalTensor& x, const at::Tensor& inner,
                                 const at::Tensor& weight_in, const at::Tensor& weight_out, bool in_out,
                                 std::array<bool, products::kMlpGradients> wanted) {
  const MlpWeights weights = weights_of(weight_in, {}, weight_out, {}, in_out);
  auto [of_x, of_weight_in, of_bias_in, of_weight_out, of_bias_out] =
      products::gelu_mlp_backward(grad, or_undefined(x), inner, weights, wanted, products::kFastest);
  return {of_x, of_weight_in, of_bias_in, of_weight_out, of_bias_out};
}

const auto& gelu_mlp_operator() {
  static const auto op = operator_named<decltype(gelu_mlp_cuda)>("shoal::gelu_mlp");
  return op;
}

const auto& gelu_mlp_backward_operator() {
  static const auto op = operator_named<decltype(gelu_mlp_backward_cuda)>("shoal::gelu_mlp_backward");
  return op;
}

class GeluMlp : public torch::autograd::Function<GeluMlp> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight_in,
                            const at::Tensor& bias_in, const at::Tensor& weight_out, const at::Tensor& bias_out,
                            const OptionalTensor& residual, bool in_out) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [y, inner] = run(x, weights_of(weight_in, bias_in, weight_out, bias_out, in_out), residual, /*keep=*/true);
    ctx->save_for_backward({weight_in.requires_grad() ? x : at::Tensor(), inner, weight_in, weight_out});
    ctx->saved_data["in_out"] = in_out;
    ctx->saved_data["residual"] = residual.has_value() && residual->defined();
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    SHOAL_CHECK(!at::GradMode::is_enabled(), InternalError, "shoal::gelu_mlp: its gradient has no gradient");
    const at::AutoDispatchBelowADInplaceOrView below;
    std::array<bool, products::kMlpGradients> wanted{};
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = ctx->needs_input_grad(i);
    const variable_list saved = ctx->get_saved_variables();
    const auto [x, weight_in, bias_in, weight_out, bias_out] = gelu_mlp_backward_operator().call(
        grads[0], given(saved[0]), saved[1], saved[2], saved[3], ctx->saved_data["in_out"].toBool(), wanted);
    const bool has_residual = ctx->saved_data["residual"].toBool();
    return {x, weight_in, bias_in, weight_out, bias_out, has_residual ? grads[0] : at::Tensor(), at::Tensor()};
  }
};

at::Tensor gelu_mlp_autograd(const at::Tensor& x, const at::Tensor& weight_in, const at::Tensor& bias_in,
                             const at::Tensor& weight_out, const at::Tensor& bias_out, const OptionalTensor& residual,
                             bool in_out) {
  if (records_gradient({x, weight_in, bias_in, weight_out, bias_out, or_undefined(residual)}))
    return GeluMlp::apply(x, weight_in, bias_in, weight_out, bias_out, residual, in_out);
  const at::AutoDispatchBelowADInplaceOrView below;
  return gelu_mlp_operator().call(x, weight_in, bias_in, weight_out, bias_out, residual, in_out);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def(
      "gelu_mlp(Tensor x, Tensor weight_in, Tensor bias_in, Tensor weight_out, Tensor bias_out, Tensor? residual, "
      "bool in_out) -> Tensor");
  library.def(
      "gelu_mlp_backward(Tensor grad, Tensor? x, Tensor inner, Tensor weight_in, Tensor weight_out, bool in_out, "
      "bool[5] wanted) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(shoal, CUDA, library) {
  library.impl("gelu_mlp", &gelu_mlp_cuda);
  library.impl("gelu_mlp_backward", &gelu_mlp_backward_cuda);
}
TORCH_LIBRARY_IMPL(shoal, Meta, library) {
  library.impl("gelu_mlp", &gelu_mlp_cuda);
  library.impl("gelu_mlp_backward", &gelu_mlp_backward_cuda);
}
TORCH_LIBRARY_IMPL(shoal, Autograd, library) { library.impl("gelu_mlp", &gelu_mlp_autograd); }

at::Tensor reference::gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual) {
  const at::Tensor inner = reference::linear(x, weights.weight_in, weights.bias_in, {}, weights.layout);
  return reference::linear(at::gelu(inner, "tanh"), weights.weight_out, weights.bias_out, residual, weights.layout);
}

at::Tensor gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual) {
  if (!takes(x, weights, residual)) return reference::gelu_mlp(x, weights, residual);
  return gelu_mlp_operator().call(x, weights.weight_in, weights.bias_in, weights.weight_out, weights.bias_out,
                                  given(residual), weights.layout == WeightLayout::in_out);
}

}  // namespace shoal::fused
