// Times of linear layers on the shapes of language models, beside LibTorch's operators:
//   fused_linear_test --gtest_also_run_disabled_tests --gtest_filter='*Bench*'
#include <fmt/core.h>

#include "fused/compare.h"
#include "fused/products.h"
#include "kernels/matmul.h"

namespace shoal::testing {
namespace {

using fused::WeightLayout;
using fused::products::Epilogues;

struct Shape {
  const char* name;
  std::int64_t rows, in, out;
  bool bias, residual;
  WeightLayout layout;
};

constexpr auto kGpt = WeightLayout::in_out, kLlama = WeightLayout::out_in;
const std::vector<Shape> kShapes{
    {"124M qkv", 32768, 768, 2304, true, false, kGpt},    {"124M attention out", 32768, 768, 768, true, true, kGpt},
    {"124M mlp in", 32768, 768, 3072, true, false, kGpt}, {"124M mlp out", 32768, 3072, 768, true, true, kGpt},
    {"1.5B qkv", 8192, 1600, 4800, true, false, kGpt},    {"1.5B attention out", 8192, 1600, 1600, true, true, kGpt},
    {"1.5B mlp in", 8192, 1600, 6400, true, false, kGpt}, {"1.5B mlp out", 8192, 6400, 1600, true, true, kGpt},
    {"8B query", 4096, 4096, 4096, false, true, kLlama},  {"8B key", 4096, 4096, 1024, false, false, kLlama},
    {"8B gate", 4096, 4096, 14336, false, false, kLlama}, {"8B down", 4096, 14336, 4096, false, true, kLlama}};

struct Tensors {
  at::Tensor x, weight, bias, residual, grad;
};

Tensors draw(const Shape& shape) {
  const at::TensorOptions options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const bool out_in = shape.layout == WeightLayout::out_in;
  const auto weight_sizes = out_in ? std::array{shape.out, shape.in} : std::array{shape.in, shape.out};
  return {at::randn({shape.rows, shape.in}, options), at::randn(weight_sizes, options) * 0.02,
          shape.bias ? at::randn({shape.out}, options) : at::Tensor(),
          shape.residual ? at::randn({shape.rows, shape.out}, options) : at::Tensor(),
          at::randn({shape.rows, shape.out}, options)};
}

// As LibTorch's autograd does it.
void libtorch_backward(const Shape& shape, const Tensors& t) {
  const bool out_in = shape.layout == WeightLayout::out_in;
  const at::Tensor dx = t.grad.mm(out_in ? t.weight : t.weight.t());
  const at::Tensor dw = out_in ? t.grad.t().mm(t.x) : t.x.t().mm(t.grad);
  const at::Tensor db = shape.bias ? t.grad.sum(0) : at::Tensor();
}

TEST(LinearBench, DISABLED_OnTheShapesOfModels) {
  SHOAL_NEEDS_GPU();
  const torch::NoGradGuard none;
  fmt::print("{:20} {:>26} {:>40}\n", "ms", "forward: ours, untried, LibTorch",
             "backward: db in product, after, untried, LibTorch");
  for (const Shape& shape : kShapes) {
    const Tensors t = draw(shape);
    const auto backward = [&](bool in_product) {
      return milliseconds_of([&] {
        fused::products::linear_backward(t.grad, t.x, t.weight, shape.layout, shape.bias,
                                         Epilogues{.bias_gradient = in_product});
      });
    };
    const double ours = milliseconds_of([&] { fused::linear(t.x, t.weight, t.bias, t.residual, shape.layout); });
    at::globalContext().setDeterministicAlgorithms(true, false);  // takes what cuBLASLt names first
    const double first = milliseconds_of([&] { fused::linear(t.x, t.weight, t.bias, t.residual, shape.layout); });
    const double first_backward = backward(false);
    at::globalContext().setDeterministicAlgorithms(false, false);
    const double theirs =
        milliseconds_of([&] { fused::reference::linear(t.x, t.weight, t.bias, t.residual, shape.layout); });
    const double in_product = backward(true), after = backward(false);
    const double their_backward = milliseconds_of([&] { libtorch_backward(shape, t); });
    const double tera = 2e-9 * static_cast<double>(shape.rows * shape.in * shape.out);
    fmt::print("{:20} {:7.3f} ({:3.0f} TFLOP/s) {:7.3f} | {:7.3f} {:7.3f} ({:3.0f} TFLOP/s) {:7.3f}\n", shape.name,
               ours, tera / ours, first, theirs, in_product, after, 2 * tera / std::min(in_product, after),
               first_backward, their_backward);
  }
  fmt::print("choosing algorithms took {:.3f} s\n", kernels::seconds_spent_on_choice());
}

}  // namespace
}  // namespace shoal::testing
