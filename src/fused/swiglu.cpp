#include "fused/swiglu.h"

#include <torch/torch.h>

namespace shoal::fused {

at::Tensor reference::swiglu(const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate) * up; }

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return reference::swiglu(gate, up); }

}  // namespace shoal::fused
