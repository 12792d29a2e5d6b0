#include "models/layers.h"

#include <torch/torch.h>

namespace shoal::models {

LinearImpl::LinearImpl(std::int64_t in, std::int64_t out, bool with_bias)
    : LinearImpl(at::empty({out, in}), with_bias ? at::empty({out}) : at::Tensor()) {}

LinearImpl::LinearImpl(const at::Tensor& tied_weight, const at::Tensor& tied_bias)
    : weight(register_parameter("weight", tied_weight)) {
  if (tied_bias.defined()) bias = register_parameter("bias", tied_bias);
}

at::Tensor LinearImpl::forward(const at::Tensor& x) const { return at::linear(x, weight, bias); }

Conv1DImpl::Conv1DImpl(std::int64_t in, std::int64_t out)
    : weight(register_parameter("weight", at::empty({in, out}))), bias(register_parameter("bias", at::empty({out}))) {}

at::Tensor Conv1DImpl::forward(const at::Tensor& x) const {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(1);
  return at::addmm(bias, x.reshape({-1, weight.size(0)}), weight).view(sizes);
}

EmbeddingImpl::EmbeddingImpl(std::int64_t rows, std::int64_t width)
    : weight(register_parameter("weight", at::empty({rows, width}))) {}

at::Tensor EmbeddingImpl::forward(const at::Tensor& ids) const { return at::embedding(weight, ids); }

LayerNormImpl::LayerNormImpl(std::int64_t width, double epsilon)
    : weight(register_parameter("weight", at::empty({width}))),
      bias(register_parameter("bias", at::empty({width}))),
      epsilon_(epsilon) {}

at::Tensor LayerNormImpl::forward(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon_);
}

}  // namespace shoal::models
