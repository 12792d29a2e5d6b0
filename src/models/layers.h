// The layers that language models are made of. Unlike those of torch::nn they leave their parameters undrawn: a model
// draws them once, from its own distributions (init.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <utility>

namespace shoal::models {

// x W^T + b, W [out, in], and what is to be added to it, [..., out], if anything.
struct LinearImpl : torch::nn::Module {
  LinearImpl(std::int64_t in, std::int64_t out, bool with_bias = true);
  // Tied: takes another layer's parameters as its own. An undefined bias is none.
  LinearImpl(const at::Tensor& tied_weight, const at::Tensor& tied_bias);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual = {}) const;  // [..., in] -> [..., out]

  at::Tensor weight, bias;
};
TORCH_MODULE(Linear);

// x W + b, W [in, out]: the layer of that name in GPT-2, where it has nothing to do with a convolution.
struct Conv1DImpl : torch::nn::Module {
  Conv1DImpl(std::int64_t in, std::int64_t out);
  at::Tensor forward(const at::Tensor& x) const;  // [..., in] -> [..., out]

  at::Tensor weight, bias;
};
TORCH_MODULE(Conv1D);

struct EmbeddingImpl : torch::nn::Module {
  EmbeddingImpl(std::int64_t rows, std::int64_t width);
  at::Tensor forward(const at::Tensor& ids) const;  // int64 [...] -> [..., width]

  at::Tensor weight;
};
TORCH_MODULE(Embedding);

struct LayerNormImpl : torch::nn::Module {
  LayerNormImpl(std::int64_t width, double epsilon);
  at::Tensor forward(const at::Tensor& x) const;
  std::pair<at::Tensor, at::Tensor> add(const at::Tensor& x, const at::Tensor& y) const;  // {x + y, norm of x + y}

  at::Tensor weight, bias;

 private:
  double epsilon_;
};
TORCH_MODULE(LayerNorm);

}  // namespace shoal::models
