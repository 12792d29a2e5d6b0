#include <torch/torch.h>

#include "fused/products.h"
#include "fused/row_products.h"
#include "kernels/column_sums.h"
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
  if (!device.has_memory()) return activated;
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
    if (multiplied(product, device)) return {inner, first};
    product.epilogue = Epilogue::bias;
    product.aux = nullptr;
    product.aux_stride = 0;
  }
  const at::Tensor inner =
      multiplied(product, device) ? first : reference::linear(rows, weight, bias, {}, weights.layout);
  return {keep_inner ? inner : at::Tensor(), gelu_of(inner, device)};
}

// What the second half of the MLP is walked through backward for.
struct Middle {
  at::Tensor gradient, bias;  // of `inner`; of its bias where wanted
  at::Tensor activated;       // gelu(inner) where wanted
};
struct MiddleWanted {
  bool bias, activated;
};

// gelu' in the product: no pass over memory for it, but one for the activation.
std::optional<Middle> middle_in_product(const at::Tensor& grad, const at::Tensor& inner, const MlpWeights& weights,
                                        const MiddleWanted& wanted, bool with_sums, const DeviceScope& device) {
  const at::Tensor weight = as_rows(weights.weight_out), gradient = at::empty_like(inner);
  kernels::Matmul product = backward_product(grad, weight, weights.layout, gradient);
  const bool sums = wanted.bias && with_sums && !product.deterministic;
  const at::Tensor bias = sums ? at::empty({inner.size(1)}, inner.options()) : at::Tensor();
  product.epilogue = sums ? Epilogue::dgelu_bias_grad : Epilogue::dgelu;
  add_aux(product, inner);
  if (sums) product.vector = bias.mutable_data_ptr();
  if (!multiplied(product, device)) return std::nullopt;
  return Middle{gradient, wanted.bias && !sums ? sum_of_rows(gradient, device) : bias,
                wanted.activated ? gelu_of(inner, device) : at::Tensor()};
}

// After it: the gradient, the activation and the sums in one pass.
Middle middle_after_product(const at::Tensor& grad, const at::Tensor& inner, const MlpWeights& weights,
                            const MiddleWanted& wanted, const DeviceScope& device) {
  const std::int64_t rows = inner.size(0), width = inner.size(1);
  Middle middle{.gradient = at::empty_like(inner)};
  if (rows > 0) multiply_backward(grad, as_rows(weights.weight_out), weights.layout, middle.gradient, device);
  if (wanted.activated) middle.activated = at::empty_like(inner);
  if (wanted.bias) middle.bias = at::empty({width}, inner.options());
  const at::Tensor partials =
      at::empty({wanted.bias ? kernels::column_sum_partials(rows, width) : 0}, inner.options().dtype(at::kFloat));
  if (!device.has_memory()) return middle;
  kernels::gelu_backward({.rows = rows,
                          .columns = width,
                          .dtype = dtype_of(inner),
                          .x = inner.const_data_ptr(),
                          .grad = middle.gradient.mutable_data_ptr(),
                          .activated = wanted.activated ? middle.activated.mutable_data_ptr() : nullptr,
                          .sums = wanted.bias ? middle.bias.mutable_data_ptr() : nullptr,
                          .partials = partials.mutable_data_ptr<float>()},
                         device.stream());
  return middle;
}

Middle backward_to_middle(const at::Tensor& grad, const at::Tensor& inner, const MlpWeights& weights,
                          const MiddleWanted& wanted, const Epilogues& epilogues, const DeviceScope& device) {
  std::optional<Middle> middle;
  if (epilogues.gelu_gradient && inner.size(0) > 0)
    middle = middle_in_product(grad, inner, weights, wanted, epilogues.bias_gradient, device);
  return middle ? *std::move(middle) : middle_after_product(grad, inner, weights, wanted, device);
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

std::array<at::Tensor, kMlpGradients> gelu_mlp_backward(const at::Tensor& grad, const at::Tensor& x,
                                                        const at::Tensor& inner, const MlpWeights& weights,
                                                        const std::array<bool, kMlpGradients>& wanted,
                                                        const Epilogues& epilogues) {
  const DeviceScope device(grad);
  const at::Tensor rows = as_rows(grad);
  std::array<at::Tensor, kMlpGradients> gradients;
  const bool through = wanted[kOfX] || wanted[kOfWeightIn] || wanted[kOfBiasIn];
  Middle middle;
  if (through)
    middle = backward_to_middle(rows, inner, weights, {wanted[kOfBiasIn], wanted[kOfWeightOut]}, epilogues, device);
  gradients[kOfBiasIn] = middle.bias;
  if (wanted[kOfWeightOut]) {
    // Dropped when its product is queued: the activation is one of the largest tensors here.
    const at::Tensor activated = through ? std::exchange(middle.activated, {}) : gelu_of(inner, device);
    const ParameterGradients of_out = parameter_gradients(rows, activated, weights.weight_out, weights.layout,
                                                          wanted[kOfBiasOut], epilogues.bias_gradient, device);
    gradients[kOfWeightOut] = of_out.weight;
    gradients[kOfBiasOut] = of_out.bias;
  } else if (wanted[kOfBiasOut]) {
    gradients[kOfBiasOut] = sum_of_rows(rows, device);
  }
  if (wanted[kOfWeightIn])
    gradients[kOfWeightIn] = parameter_gradients(middle.gradient, as_rows(x), weights.weight_in, weights.layout,
                                                 /*with_bias=*/false, false, device)
                                 .weight;
  if (wanted[kOfX]) {
    const at::Tensor weight = as_rows(weights.weight_in);
    gradients[kOfX] = empty_like_rows(grad, weight.size(weights.layout == WeightLayout::out_in ? 1 : 0));
    if (grad.numel() > 0) multiply_backward(middle.gradient, weight, weights.layout, as_rows(gradients[kOfX]), device);
  }
  return gradients;
}

}  // namespace shoal::fused::products
