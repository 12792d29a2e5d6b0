// The matrix products of linear layers on a GPU, without autograd: what the operators of linear.cpp and gelu_mlp.cpp
// run. All tensors are on one GPU and of one type, fp32, fp16 or bf16; weights and biases are not empty, batches may
// be. Results are new and contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "fused/gelu_mlp.h"
#include "fused/linear.h"

namespace shoal::fused::products {

// What cuBLASLt is asked to do beside multiplying. Where it is not, or has no algorithm, a kernel of ours follows.
struct Epilogues {
  bool gelu = true;            // of the MLP's first product
  bool gelu_gradient = false;  // of the second product's input
  bool bias_gradient = false;  // beside a weight's or that of the second product's input
};

// Measured on H200 by the benchmarks of tests/fused, at 32768 x 768 and 8192 x 1600: gelu in the product takes 0.51 and
// 0.54 ms against 0.54 and 0.55, but its gradient there makes a backward pass of 1.6 and 1.5 ms out of one of 1.2 and
// 1.1. A bias's gradient costs more beside a weight's (0.39 ms against 0.37) than after it.
inline constexpr Epilogues kFastest{};

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& residual,
                  WeightLayout layout);

struct LinearGradients {
  at::Tensor x, weight, bias;  // undefined where not wanted
};
// x is wanted where `weight` is defined, weight where `x` is.
LinearGradients linear_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                                WeightLayout layout, bool with_bias, const Epilogues& epilogues);

struct MlpForward {
  at::Tensor y;
  at::Tensor inner;  // the first product with its bias, before gelu; undefined unless kept
};
// Both biases are defined.
MlpForward gelu_mlp(const at::Tensor& x, const MlpWeights& weights, const at::Tensor& residual, bool keep_inner,
                    const Epilogues& epilogues);

enum MlpGradient { kOfX, kOfWeightIn, kOfBiasIn, kOfWeightOut, kOfBiasOut, kMlpGradients };
// Those that are not wanted are undefined. x is read for weight_in's, weight_in for x's, and may be undefined
// elsewhere; biases are not read.
std::array<at::Tensor, kMlpGradients> gelu_mlp_backward(const at::Tensor& grad, const at::Tensor& x,
                                                        const at::Tensor& inner, const MlpWeights& weights,
                                                        const std::array<bool, kMlpGradients>& wanted,
                                                        const Epilogues& epilogues);

}  // namespace shoal::fused::products
