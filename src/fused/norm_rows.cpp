#include "fused/norm_rows.h"

#include <torch/torch.h>

#include "core/check.h"
#include "fused/operators.h"
#include "kernels/norm.h"

namespace shoal::fused {
namespace {

kernels::NormShape shape_of(const at::Tensor& x) {
  return {.rows = x.numel() / x.size(-1), .width = x.size(-1), .dtype = dtype_of(x)};
}

at::Tensor empty_rows(const at::Tensor& x) {
  return at::empty(x.sizes().slice(0, x.sizes().size() - 1), x.options().dtype(at::kFloat));
}

at::Tensor contiguous_like(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

void* address(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }
float* numbers(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

at::Tensor packed(const at::Tensor& tensor) { return tensor.defined() ? tensor.contiguous() : tensor; }

bool is_row_of(const at::Tensor& x, const at::Tensor& weight) {
  return are_like(x, {weight}) && weight.dim() == 1 && weight.size(0) == x.size(-1);
}

}  // namespace

bool norm_takes(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight, const at::Tensor& bias) {
  if (!is_for_kernels(x) || x.dim() == 0 || x.size(-1) == 0 || x.size(-1) > kernels::kMaxNormWidth) return false;
  if (y.defined() && !(are_like(x, {y}) && y.sizes() == x.sizes())) return false;
  return is_row_of(x, weight) && (!bias.defined() || is_row_of(x, bias));
}

NormResult norm_forward_rows(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight, const at::Tensor& bias,
                             double epsilon, bool centred) {
  SHOAL_ASSERT(norm_takes(x, y, weight, bias));
  const DeviceScope device(x);
  const at::Tensor rows = x.contiguous(), added = packed(y), scale = weight.contiguous(), shift = packed(bias);
  NormResult result{.sum = y.defined() ? contiguous_like(x) : at::Tensor(),
                    .normed = contiguous_like(x),
                    .mean = centred ? empty_rows(x) : at::Tensor(),
                    .rstd = empty_rows(x)};
  if (!device.has_memory()) return result;
  kernels::norm_forward(shape_of(x),
                        {.x = address(rows),
                         .y = address(added),
                         .weight = address(scale),
                         .bias = address(shift),
                         .sum = address(result.sum),
                         .normed = address(result.normed),
                         .mean = numbers(result.mean),
                         .rstd = numbers(result.rstd),
                         .epsilon = static_cast<float>(epsilon)},
                        device.stream());
  return result;
}

NormGradients norm_backward_rows(const at::Tensor& grad, const at::Tensor& grad_sum, const NormContext& context,
                                 bool parameters_wanted) {
  const at::Tensor& weight = context.weight;
  SHOAL_ASSERT(norm_takes(context.x, grad, weight, {}) && norm_takes(context.x, grad_sum, weight, {}));
  const DeviceScope device(context.x);
  const kernels::NormShape shape = shape_of(context.x);
  const at::Tensor from_normed = grad.contiguous(), from_sum = packed(grad_sum), rows = context.x.contiguous(),
                   scale = weight.contiguous();
  NormGradients result{.x = contiguous_like(rows)};
  at::Tensor partials;
  if (parameters_wanted) {
    result.weight = contiguous_like(weight);
    if (context.mean.defined()) result.bias = contiguous_like(weight);
    // How many depends on the GPU; little beside the rows.
    const std::int64_t count = device.has_memory() ? kernels::norm_partials(shape) : 0;
    partials = at::empty({count}, rows.options().dtype(at::kFloat));
  }
  if (!device.has_memory()) return result;
  kernels::norm_backward(shape,
                         {.grad = address(from_normed),
                          .grad_sum = address(from_sum),
                          .x = address(rows),
                          .mean = numbers(context.mean),
                          .rstd = numbers(context.rstd),
                          .weight = address(scale),
                          .dx = address(result.x),
                          .dweight = address(result.weight),
                          .dbias = address(result.bias),
                          .partials = numbers(partials)},
                         device.stream());
  return result;
}

}  // namespace shoal::fused
