#include "fused/gelu_mlp.h"

#include <torch/torch.h>

namespace shoal::fused {

at::Tensor reference::gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual) {
  const at::Tensor inner = reference::linear(x, weights.weight_in, weights.bias_in, {}, weights.layout);
  return reference::linear(at::gelu(inner, "tanh"), weights.weight_out, weights.bias_out, residual, weights.layout);
}

at::Tensor gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual) {
  return reference::gelu_mlp(x, weights, residual);
}

}  // namespace shoal::fused
