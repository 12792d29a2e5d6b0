// Layer normalisation (Ba et al. 2016), alone and with the addition of a residual branch before it.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace shoal::fused {

// x [..., width]; weight, bias [width], of x's dtype. Mean and variance in fp32 for 16-bit x. Saves x for backward, not
// the result.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon);

// {x + y, layer_norm(x + y)}: one pass over memory forward, one backward.
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                                 const at::Tensor& bias, double epsilon);

namespace reference {
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon);
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                                 const at::Tensor& bias, double epsilon);
}  // namespace reference

}  // namespace shoal::fused
