#include "fused/rope.h"

#include <torch/torch.h>

namespace shoal::fused {

at::Tensor reference::rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos.unsqueeze(1) + at::cat({-halves[1], halves[0]}, -1) * sin.unsqueeze(1);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return reference::rotate(x, cos, sin);
}

}  // namespace shoal::fused
