// A linear layer with what stands around it in a residual network, in one matrix product: cuBLASLt adds bias and
// residual while it writes, and sums the bias's gradient while it multiplies for the weight's.
#pragma once

#include <ATen/core/Tensor.h>

namespace shoal::fused {

enum class WeightLayout { out_in, in_out };  // torch::nn::Linear's, GPT-2's Conv1D's

// x W^T + bias + residual (in_out: x W + …). x [..., in]; weight [out, in] or [in, out]; bias [out] and residual
// [..., out] may be undefined. Backward keeps x and weight.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& residual,
                  WeightLayout layout);

namespace reference {
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& residual,
                  WeightLayout layout);
}

}  // namespace shoal::fused
