#include "fused/rms_norm.h"

#include <torch/torch.h>

namespace shoal::fused {

namespace reference {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, weight.sizes(), weight, epsilon);
}

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                               double epsilon) {
  const at::Tensor sum = x + y;
  return {sum, rms_norm(sum, weight, epsilon)};
}

}  // namespace reference

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return reference::rms_norm(x, weight, epsilon);
}

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                                               double epsilon) {
  return reference::add_rms_norm(x, y, weight, epsilon);
}

}  // namespace shoal::fused
