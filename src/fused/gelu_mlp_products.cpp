#include <torch/torch.h>

#include "fused/products.h"
#include "fused/row_products.h"
#include "kernels/gelu.h"

namespace shoal::fused::products {
namespace {

using kernels::Epilogue;

void add_aux(kernels::Matmul& product, const at::Tensor& aux) {
  product.aux = aux.mutable_data_ptr();
  product.aux_stride = aux.size(1);
}

at::Tensor gelu_of(const at::Tensor& inner, const DeviceScope& device) {
  at::Tensor activated = at::empty_like(inner);
  kernels::gelu(inner.const_data_ptr(), activated.mutable_data_ptr(), inner.numel(), dtype_of(inner), device.stream());
  return activated;
}

struct Activation {
  at::Tensor inner, activated;  // rows, contiguous; inner is undefined where it is not kept
};

// The first half of the MLP, in one product or in a product and a kernel.
Activation activate(const at::Tensor& x, const MlpWeights& weights, bool keep_inner, bool in_product,
                    const DeviceScope& device) {
  const std::int64_t width = weights.bias_in.numel();
  const at::Tensor rows = as_rows(x), weight = as_rows(weights.weight_in), bias = weights.bias_in.contiguous();
  const at::Tensor first = at::empty({rows.size(0), width}, x.options());
  kernels::Matmul product = forward_product(rows, weight, weights.layout, first);
  add_bias(product, bias);
  if (in_product) {
    const at::Tensor inner = keep_inner ? at::empty_like(first) : at::Tensor();
    product.epilogue = keep_inner ? Epilogue::gelu_aux_bias : Epilogue::gelu_bias;
    if (keep_inner) add_aux(product, inner);
    if (kernels::try_matmul(product, device.stream())) return {inner, first};
    product.epilogue = Epilogue::bias;
    product.aux = nullptr;
    product.aux_stride = 0;
  }
  const at::Tensor inner =
      kernels::try_matmul(product, device.stream()) ? first : reference::linear(rows, weight, bias, {}, weights.layout);
  return {keep_inner ? inner : at::Tensor(), gelu_of(inner, device)};
}

// The gradient of `inner`, of rows, and of its bias where wanted.
struct InnerGradients {
  at::Tensor inner, bias;
};
InnerGradients inner_gradients(const at::Tensor& grad, const at::Tensor& inner, const MlpWeights& weights,
                               bool with_bias, const Epilogues& epilogues, const DeviceScope& device) {
  const at::Tensor weight = as_rows(weights.weight_out);
  at::Tensor gradient = at::empty_like(inner);
  if (inner.size(0) == 0) return {gradient, with_bias ? sum_of_rows(gradient, device) : at::Tensor()};
  if (epilogues.gelu_gradient) {
    kernels::Matmul product = backward_product(grad, weight, weights.layout, gradient);
    const bool sums = with_bias && epilogues.bias_gradient && !product.deterministic;
    const at::Tensor bias = sums ? at::empty({inner.size(1)}, inner.options()) : at::Tensor();
    product.epilogue = sums ? Epilogue::dgelu_bias_grad : Epilogue::dgelu;
    add_aux(product, inner);
    if (sums) product.vector = bias.mutable_data_ptr();
    if (kernels::try_matmul(product, device.stream()))
      return {gradient, with_bias && !sums ? sum_of_rows(gradient, device) : bias};
  }
  multiply_backward(grad, weight, weights.layout, gradient, device);
  kernels::gelu_backward(inner.const_data_ptr(), gradient.mutable_data_ptr(), inner.numel(), dtype_of(inner),
                         device.stream());
  return {gradient, with_bias ? sum_of_rows(gradient, device) : at::Tensor()};
}

}  // namespace

MlpForward gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual, bool keep_inner,
                    const Epilogues& epilogues) {
  const DeviceScope device(x);
  const std::int64_t width = weights.bias_in.numel();
  if (x.numel() == 0)
    return {empty_like_rows(x, weights.bias_out.numel()),
            keep_inner ? at::empty({0, width}, x.options()) : at::Tensor()};
  const Activation first = activate(x, weights, keep_inner, epilogues.gelu, device);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = width;
  return {products::linear(first.activated.view(sizes), weights.weight_out, weights.bias_out, residual, weights.layout),
          first.inner};
}

// The activation is made again first and dropped before its gradient is there: the two are the largest tensors here.
std::array<at::Tensor, kMlpGradients> gelu_mlp_backward(const at::Tensor& grad, const at::Tensor& x,
                                                        const at::Tensor& inner, const MlpWeights& weights,
                                                        const std::array<bool, kMlpGradients>& wanted,
                                                        const Epilogues& epilogues) {
  const DeviceScope device(grad);
  const at::Tensor rows = as_rows(grad);
  std::array<at::Tensor, kMlpGradients> gradients;
  if (wanted[kOfWeightOut]) {
    const auto [weight, bias] = parameter_gradients(rows, gelu_of(inner, device), weights.layout, wanted[kOfBiasOut],
                                                    epilogues.bias_gradient, device);
    gradients[kOfWeightOut] = weight;
    gradients[kOfBiasOut] = bias;
  } else if (wanted[kOfBiasOut]) {
    gradients[kOfBiasOut] = sum_of_rows(rows, device);
  }
  if (!wanted[kOfX] && !wanted[kOfWeightIn] && !wanted[kOfBiasIn]) return gradients;
  const InnerGradients first = inner_gradients(rows, inner, weights, wanted[kOfBiasIn], epilogues, device);
  gradients[kOfBiasIn] = first.bias;
  if (wanted[kOfWeightIn])
    gradients[kOfWeightIn] =
        parameter_gradients(first.inner, as_rows(x), weights.layout, /*with_bias=*/false, false, device).weight;
  if (wanted[kOfX]) {
    const at::Tensor weight = as_rows(weights.weight_in);
    gradients[kOfX] = empty_like_rows(grad, weight.size(weights.layout == WeightLayout::out_in ? 1 : 0));
    if (grad.numel() > 0) multiply_backward(first.inner, weight, weights.layout, as_rows(gradients[kOfX]), device);
  }
  return gradients;
}

}  // namespace shoal::fused::products
