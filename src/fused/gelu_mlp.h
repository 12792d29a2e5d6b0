// The MLP of a GPT block: linear, gelu (tanh form), linear, residual.
#pragma once

#include <ATen/core/Tensor.h>

#include "fused/linear.h"

namespace shoal::fused {

struct MlpWeights {
  at::Tensor weight_in, bias_in;    // width -> inner
  at::Tensor weight_out, bias_out;  // inner -> width
  WeightLayout layout = WeightLayout::out_in;
};

// linear(gelu(linear(x))) + residual; x, residual [..., width], the latter may be undefined. Bias and gelu are
// epilogues of the first product, their gradients of backward's. Keeps x and the first product; gelu is computed again
// in backward.
at::Tensor gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual);

namespace reference {
at::Tensor gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual);
}

}  // namespace shoal::fused
