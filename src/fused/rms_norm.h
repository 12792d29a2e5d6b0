// Root-mean-square normalisation (Zhang and Sennrich 2019), alone and with the addition of a residual branch before it.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace shoal::fused {

// x [..., width]; weight [width], of x's dtype. The mean square in fp32 for 16-bit x. Saves x for backward, not the
// result.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// {x + y, rms_norm(x + y)}: one pass over memory forward, one backward.
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                               double epsilon);

namespace reference {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                               double epsilon);
}  // namespace reference

}  // namespace shoal::fused
