#include "models/layers.h"

#include <torch/torch.h>

#include "fused/layer_norm.h"
#include "fused/linear.h"

namespace shoal::models {

LinearImpl::LinearImpl(std::int64_t in, std::int64_t out, bool with_bias)
    : LinearImpl(at::empty({out, in}), with_bias ? at::empty({out}) : at::Tensor()) {}

LinearImpl::LinearImpl(const at::Tensor& tied_weight, const at::Tensor& tied_bias)
    : weight(register_parameter("weight", tied_weight)) {
  if (tied_bias.defined()) bias = register_parameter("bias", tied_bias);
}

at::Tensor LinearImpl::forward(const at::Tensor& x, const at::Tensor& residual) const {
  return fused::linear(x, weight, bias, residual, fused::WeightLayout::out_in);
}

Conv1DImpl::Conv1DImpl(std::int64_t in, std::int64_t out)
    : weight(register_parameter("weight", at::empty({in, out}))), bias(register_parameter("bias", at::empty({out}))) {}

at::Tensor Conv1DImpl::forward(const at::Tensor& x) const {
  return fused::linear(x, weight, bias, /*residual=*/{}, fused::WeightLayout::in_out);
}

EmbeddingImpl::EmbeddingImpl(std::int64_t rows, std::int64_t width)
    : weight(register_parameter("weight", at::empty({rows, width}))) {}

at::Tensor EmbeddingImpl::forward(const at::Tensor& ids) const { return at::embedding(weight, ids); }

LayerNormImpl::LayerNormImpl(std::int64_t width, double epsilon)
    : weight(register_parameter("weight", at::empty({width}))),
      bias(register_parameter("bias", at::empty({width}))),
      epsilon_(epsilon) {}

at::Tensor LayerNormImpl::forward(const at::Tensor& x) const { return fused::layer_norm(x, weight, bias, epsilon_); }

std::pair<at::Tensor, at::Tensor> LayerNormImpl::add(const at::Tensor& x, const at::Tensor& y) const {
  return fused::add_layer_norm(x, y, weight, bias, epsilon_);
}

}  // namespace shoal::models
