// Times of the MLP of a GPT block with and without each epilogue, beside LibTorch's operators:
//   fused_gelu_mlp_test --gtest_also_run_disabled_tests --gtest_filter='*Bench*'
#include <fmt/core.h>

#include "fused/compare.h"
#include "fused/operators.h"
#include "fused/products.h"
#include "kernels/column_sums.h"
#include "kernels/gelu.h"
#include "kernels/matmul.h"

namespace shoal::testing {
namespace {

using fused::MlpWeights;
using fused::WeightLayout;
using fused::products::Epilogues;

struct Shape {
  const char* name;
  std::int64_t rows, width, inner;
};

MlpWeights draw(const Shape& shape, const at::TensorOptions& options) {
  return {at::randn({shape.width, shape.inner}, options) * 0.02, at::randn({shape.inner}, options),
          at::randn({shape.inner, shape.width}, options) * 0.02, at::randn({shape.width}, options),
          WeightLayout::in_out};
}

// As LibTorch's autograd does it, but for the sum of the gradients of x.
void libtorch_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& inner, const at::Tensor& active,
                       const MlpWeights& w) {
  const at::Tensor d_active = grad.mm(w.weight_out.t()), d_weight_out = active.t().mm(grad), d_bias_out = grad.sum(0);
  const at::Tensor d_inner = at::gelu_backward(d_active, inner, "tanh");
  const at::Tensor dx = d_inner.mm(w.weight_in.t()), d_weight_in = x.t().mm(d_inner), d_bias_in = d_inner.sum(0);
}

void print_times(const Shape& shape) {
  const at::TensorOptions options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const MlpWeights weights = draw(shape, options);
  const at::Tensor x = at::randn({shape.rows, shape.width}, options), grad = at::randn_like(x);
  const at::Tensor inner = at::addmm(weights.bias_in, x, weights.weight_in), active = at::gelu(inner, "tanh");
  const double tera = 4e-9 * static_cast<double>(shape.rows * shape.width * shape.inner);
  const auto row = [&](const char* pass, const std::string& what, double ms, double products) {
    fmt::print("{:6} {:9} {:44} {:8.3f} ms {:4.0f} TFLOP/s\n", shape.name, pass, what, ms, products * tera / ms);
  };
  for (const bool gelu : {true, false})
    row("forward", gelu ? "gelu in the product" : "gelu after it",
        milliseconds_of([&] { fused::products::gelu_mlp(x, weights, x, true, Epilogues{.gelu = gelu}); }), 1);
  row("forward", "LibTorch", milliseconds_of([&] { fused::reference::gelu_mlp(x, weights, x); }), 1);
  for (const bool gelu : {true, false})
    for (const bool bias : {true, false})
      row("backward", fmt::format("gelu' {}, bias's gradient {}", gelu ? "in" : "after", bias ? "in" : "after"),
          milliseconds_of([&] {
            fused::products::gelu_mlp_backward(grad, x, inner, weights, {true, true, true, true, true},
                                               Epilogues{.gelu_gradient = gelu, .bias_gradient = bias});
          }),
          2);
  row("backward", "LibTorch", milliseconds_of([&] { libtorch_backward(grad, x, inner, active, weights); }), 2);
}

TEST(GeluMlpBench, DISABLED_OnTheShapesOfModels) {
  SHOAL_NEEDS_GPU();
  const torch::NoGradGuard none;
  print_times({"124M", 32768, 768, 3072});
  print_times({"1.5B", 8192, 1600, 6400});
  fmt::print("choosing algorithms took {:.3f} s\n", kernels::seconds_spent_on_choice());
}

TEST(GeluMlpBench, DISABLED_KernelsOfTheirOwn) {
  SHOAL_NEEDS_GPU();
  const at::Tensor x = at::randn({32768, 3072}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
  at::Tensor y = at::zeros_like(x), active = at::empty_like(x), sums = at::empty({3072}, x.options());
  const at::Tensor partials = at::empty({kernels::column_sum_partials(32768, 3072)}, x.options().dtype(at::kFloat));
  const fused::DeviceScope device(x);
  const double giga = 2e-6 * static_cast<double>(x.numel());
  const auto row = [&](const char* what, double passes, double ms) {
    fmt::print("{:16} {:8.3f} ms {:6.0f} GB/s\n", what, ms, passes * giga / ms);
  };
  row("gelu", 2, milliseconds_of([&] {
        kernels::gelu(x.const_data_ptr(), y.mutable_data_ptr(), x.numel(), DType::bfloat16, device.stream());
      }));
  row("gelu_backward", 4, milliseconds_of([&] {
        kernels::gelu_backward({32768, 3072, DType::bfloat16, x.const_data_ptr(), y.mutable_data_ptr(),
                                active.mutable_data_ptr(), sums.mutable_data_ptr(), partials.mutable_data_ptr<float>()},
                               device.stream());
      }));
  row("column_sums", 1, milliseconds_of([&] {
        kernels::column_sums({x.const_data_ptr(), 32768, 3072, 3072, DType::bfloat16}, sums.mutable_data_ptr(),
                             partials.mutable_data_ptr<float>(), device.stream());
      }));
}

}  // namespace
}  // namespace shoal::testing
