// The gate of a SwiGLU MLP (Shazeer 2020).
#pragma once

#include <ATen/core/Tensor.h>

namespace shoal::fused {

// silu(gate) * up, of one shape and dtype; silu in fp32. Saves gate and up, not the result.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

namespace reference {
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
}

}  // namespace shoal::fused
