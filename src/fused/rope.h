// Rotary position embedding (Su et al. 2021) of queries and keys.
#pragma once

#include <ATen/core/Tensor.h>

namespace shoal::fused {

// x [n, T, heads, d] contiguous, d even; cos, sin [T, d] of x's dtype, whose second half of a row repeats the first.
// Turns each pair (x_i, x_{i + d/2}) by its position's angle; a new tensor of the same shape. Saves cos and sin alone.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

namespace reference {
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);
}

}  // namespace shoal::fused
