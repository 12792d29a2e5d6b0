// Kernels of the norms for the CPU, by the formulas that those for the GPU follow: with them the operators' graphs are
// tested where there is no GPU.
#include <torch/torch.h>

#include <optional>
#include <tuple>

namespace shoal::testing {
namespace {

using at::Tensor;

struct Normed {
  Tensor normed, mean, rstd;
};

Normed norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const Tensor mean = bias.defined() ? x.mean(-1) : at::zeros_like(x.select(-1, 0));
  const Tensor centred = x - mean.unsqueeze(-1);
  const Tensor rstd = (centred.square().mean(-1) + epsilon).rsqrt();
  const Tensor scaled = centred * rstd.unsqueeze(-1) * weight;
  return {bias.defined() ? scaled + bias : scaled, mean, rstd};
}

struct Gradients {
  Tensor x, weight, bias;
};

Gradients gradients(const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x, const Tensor& mean,
                    const Tensor& rstd, const Tensor& weight, bool parameters) {
  const Tensor scale = rstd.unsqueeze(-1), inner = grad * weight;
  const Tensor normed = (mean.defined() ? x - mean.unsqueeze(-1) : x) * scale;
  Tensor from_normed = inner - normed * (inner * normed).mean(-1, true);
  if (mean.defined()) from_normed = from_normed - inner.mean(-1, true);
  Gradients result{.x = from_normed * scale};
  if (grad_sum) result.x = result.x + *grad_sum;
  if (!parameters) return result;
  result.weight = (grad * normed).flatten(0, -2).sum(0);
  if (mean.defined()) result.bias = grad.flatten(0, -2).sum(0);
  return result;
}

TORCH_LIBRARY_IMPL(shoal, CPU, library) {
  library.impl("layer_norm", [](const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
    const Normed out = norm(x, weight, bias, epsilon);
    return std::tuple(out.normed, out.mean, out.rstd);
  });
  library.impl("add_layer_norm",
               [](const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias, double epsilon) {
                 const Tensor sum = x + y;
                 const Normed out = norm(sum, weight, bias, epsilon);
                 return std::tuple(sum, out.normed, out.mean, out.rstd);
               });
  library.impl("layer_norm_backward", [](const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x,
                                         const Tensor& mean, const Tensor& rstd, const Tensor& weight, bool wanted) {
    const Gradients out = gradients(grad, grad_sum, x, mean, rstd, weight, wanted);
    return std::tuple(out.x, out.weight, out.bias);
  });
  library.impl("rms_norm", [](const Tensor& x, const Tensor& weight, double epsilon) {
    const Normed out = norm(x, weight, {}, epsilon);
    return std::tuple(out.normed, out.rstd);
  });
  library.impl("add_rms_norm", [](const Tensor& x, const Tensor& y, const Tensor& weight, double epsilon) {
    const Tensor sum = x + y;
    const Normed out = norm(sum, weight, {}, epsilon);
    return std::tuple(sum, out.normed, out.rstd);
  });
  library.impl("rms_norm_backward", [](const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x,
                                       const Tensor& rstd, const Tensor& weight, bool wanted) {
    const Gradients out = gradients(grad, grad_sum, x, {}, rstd, weight, wanted);
    return std::tuple(out.x, out.weight);
  });
}

}  // namespace
}  // namespace shoal::testing
