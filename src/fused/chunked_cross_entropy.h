// What linear_cross_entropy() computes on a GPU, without autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shoal::fused {

struct CrossEntropyProblem {
  at::Tensor x, weight, targets;  // as linear_cross_entropy() takes them, x of a type that kernels are written for
  std::int64_t ignored = 0;
  bool x_wanted = false, weight_wanted = false;  // the gradients
};

struct CrossEntropyResult {
  at::Tensor loss;  // a scalar in fp32
  at::Tensor x;     // its gradient, of the type of x; undefined where not wanted
  at::Tensor
      weight;  // likewise, in fp32 where it is a sum over chunks (and always for fp16), else of the weight's type
};

// Bytes of logits at once where there are several chunks. Products of fewer rows leave tensor cores waiting.
inline constexpr std::int64_t kLogitBytes = std::int64_t{1} << 29;

CrossEntropyResult chunked_cross_entropy(const CrossEntropyProblem& problem, std::int64_t logit_bytes = kLogitBytes);

}  // namespace shoal::fused
