// The output matrix of a language model and its loss, a chunk of places at a time: the logits of the whole batch are
// never there, in no precision.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shoal::fused {

// The sum over all places with a target of -log softmax(x W^T)[target], a scalar in fp32. x [count, width]; weight
// [vocabulary, width]; targets int64 [count], `ignored` where nothing is to be predicted. Where a gradient is wanted it
// is computed in the forward pass, chunk by chunk; backward only multiplies it by what comes in.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                std::int64_t ignored);

namespace reference {
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                std::int64_t ignored);
}

}  // namespace shoal::fused
