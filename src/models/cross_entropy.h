// Cross-entropy in full precision.
#pragma once

#include <ATen/core/Tensor.h>

namespace shoal::models {

// Over the last dimension, in fp32 where `logits` are 16-bit.
at::Tensor log_probabilities(const at::Tensor& logits);

// log_probabilities [n, classes], targets int64 [n] -> the scalar sum of -log p(target).
at::Tensor cross_entropy_sum(const at::Tensor& log_probabilities, const at::Tensor& targets);

}  // namespace shoal::models
