// What layer and root-mean-square normalisation have in common: kernels/norm.h on tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace shoal::fused {

// x [..., width] and weights [width] are what the kernels take: on a GPU, of one 16- or 32-bit type, not too wide.
// `bias` and `y` (of x's shape) may be undefined.
bool norm_takes(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight, const at::Tensor& bias);

struct NormResult {
  at::Tensor sum;     // x + y; undefined without y
  at::Tensor normed;  // of x's shape, contiguous
  at::Tensor mean;    // fp32, a number a row; undefined where none is subtracted
  at::Tensor rstd;
};
// `centred`: layer normalisation, which subtracts the mean; else root-mean-square normalisation.
NormResult norm_forward_rows(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight, const at::Tensor& bias,
                             double epsilon, bool centred);

struct NormContext {
  at::Tensor x;  // what was normed
  at::Tensor mean, rstd;
  at::Tensor weight;
};
struct NormGradients {
  at::Tensor x;
  at::Tensor weight, bias;  // undefined where not wanted; a bias is wanted where there is a mean
};
// grad: of `normed`; grad_sum: of `sum`, may be undefined.
NormGradients norm_backward_rows(const at::Tensor& grad, const at::Tensor& grad_sum, const NormContext& context,
                                 bool parameters_wanted);

}  // namespace shoal::fused
