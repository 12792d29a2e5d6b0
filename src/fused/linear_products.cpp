#include <torch/torch.h>

#include "fused/products.h"
#include "fused/row_products.h"

namespace shoal::fused::products {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& residual,
                  WeightLayout layout) {
  const DeviceScope device(x);
  at::Tensor y = empty_like_rows(x, weight.size(layout == WeightLayout::out_in ? 0 : 1));
  if (y.numel() == 0) return y;
  const at::Tensor rows = as_rows(x), matrix = as_rows(weight);
  const at::Tensor vector = bias.defined() ? bias.contiguous() : bias;
  const at::Tensor other_rows = residual.defined() ? as_rows(residual) : residual;
  kernels::Matmul product = forward_product(rows, matrix, layout, as_rows(y));
  if (bias.defined()) add_bias(product, vector);
  if (residual.defined()) add_residual(product, other_rows);
  return multiplied(product, device) ? y : reference::linear(x, weight, bias, residual, layout);
}

LinearGradients linear_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                                WeightLayout layout, bool with_bias, const Epilogues& epilogues) {
  const DeviceScope device(grad);
  const at::Tensor rows = as_rows(grad);
  LinearGradients gradients;
  if (x.defined()) {
    auto [of_weight, of_bias] =
        parameter_gradients(rows, as_rows(x), weight, layout, with_bias, epilogues.bias_gradient, device);
    gradients.weight = std::move(of_weight);
    gradients.bias = std::move(of_bias);
  } else if (with_bias) {
    gradients.bias = sum_of_rows(rows, device);
  }
  if (weight.defined()) {
    gradients.x = empty_like_rows(grad, weight.size(layout == WeightLayout::out_in ? 1 : 0));
    if (grad.numel() > 0) multiply_backward(rows, as_rows(weight), layout, as_rows(gradients.x), device);
  }
  return gradients;
}

}  // namespace shoal::fused::products
