#include "fused/linear.h"

#include <torch/torch.h>

namespace shoal::fused {
namespace {

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout) {
  if (layout == WeightLayout::out_in) return at::linear(x, weight, bias);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(1);
  const at::Tensor rows = x.reshape({-1, weight.size(0)});
  return (bias.defined() ? at::addmm(bias, rows, weight) : at::mm(rows, weight)).view(sizes);
}

}  // namespace

at::Tensor reference::linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& residual, WeightLayout layout) {
  const at::Tensor y = product(x, weight, bias, layout);
  return residual.defined() ? residual + y : y;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& residual,
                  WeightLayout layout) {
  return reference::linear(x, weight, bias, residual, layout);
}

}  // namespace shoal::fused
