// Products of rows with the weight of a linear layer and its gradients, for linear_products.cpp and
// gelu_mlp_products.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include "fused/linear.h"
#include "fused/operators.h"
#include "kernels/matmul.h"

namespace shoal::fused::products {

// x [..., width] as rows [count, width] whose elements are neighbours; copied only where they are not.
at::Tensor as_rows(const at::Tensor& x);
at::Tensor empty_like_rows(const at::Tensor& x, std::int64_t width);  // of the shape of x but for the last number

// d = x W^T (in_out: x W) and d = grad W (in_out: grad W^T), to which epilogues may be added. All are rows.
kernels::Matmul forward_product(const at::Tensor& x, const at::Tensor& weight, WeightLayout layout,
                                const at::Tensor& d);
kernels::Matmul backward_product(const at::Tensor& grad, const at::Tensor& weight, WeightLayout layout,
                                 const at::Tensor& d);
void add_bias(kernels::Matmul& product, const at::Tensor& bias);          // contiguous
void add_residual(kernels::Matmul& product, const at::Tensor& residual);  // rows

// Whether cuBLASLt has an algorithm for it; taken for granted where only shapes are wanted.
bool multiplied(const kernels::Matmul& product, const DeviceScope& device);
// d = grad W (in_out: grad W^T), in any case.
void multiply_backward(const at::Tensor& grad, const at::Tensor& weight, WeightLayout layout, const at::Tensor& d,
                       const DeviceScope& device);

struct ParameterGradients {
  at::Tensor weight, bias;
};
// Of the layer that made rows of `grad`'s width from `x`; bias only where wanted, as the product's epilogue where
// `in_product`. `weight`: the parameter, for empty_gradient(); may be undefined.
ParameterGradients parameter_gradients(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                                       WeightLayout layout, bool with_bias, bool in_product, const DeviceScope& device);

at::Tensor sum_of_rows(const at::Tensor& rows, const DeviceScope& device);

}  // namespace shoal::fused::products
