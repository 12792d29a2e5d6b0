// Products as cuBLASLt gives them, against fp64.
#include "kernels/matmul.h"

#include "fused/compare.h"
#include "fused/operators.h"
#include "kernels/column_sums.h"
#include "kernels/gelu.h"

namespace shoal::testing {
namespace {

using kernels::Epilogue;
using kernels::Matmul;

struct Operands {
  at::Tensor a, b;
  bool transpose_a, transpose_b;
};

Operands draw(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
              at::ScalarType dtype) {
  const at::TensorOptions options = at::TensorOptions(at::kCUDA).dtype(dtype);
  return {at::randn(transpose_a ? at::IntArrayRef{k, m} : at::IntArrayRef{m, k}, options),
          at::randn(transpose_b ? at::IntArrayRef{n, k} : at::IntArrayRef{k, n}, options), transpose_a, transpose_b};
}

Matmul product_of(const Operands& from, const at::Tensor& d) {
  return {.m = d.size(0),
          .n = d.size(1),
          .k = from.a.size(from.transpose_a ? 0 : 1),
          .a = {from.a.const_data_ptr(), from.a.stride(0), from.transpose_a},
          .b = {from.b.const_data_ptr(), from.b.stride(0), from.transpose_b},
          .input = fused::dtype_of(from.a),
          .output = fused::dtype_of(d),
          .d = d.mutable_data_ptr(),
          .d_stride = d.stride(0)};
}

at::Tensor exact(const Operands& from) {
  const at::Tensor a = from.a.to(at::kCPU, at::kDouble), b = from.b.to(at::kCPU, at::kDouble);
  return at::mm(from.transpose_a ? a.t() : a, from.transpose_b ? b.t() : b);
}

at::Tensor nothing_in(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::full(sizes, std::nan(""), at::TensorOptions(at::kCUDA).dtype(dtype));
}

// Random numbers and, where there is room, the ends of what gelu may be given.
at::Tensor far_out(std::int64_t count, at::ScalarType dtype) {
  const double most = dtype == at::kHalf ? 6e4 : 1e18;
  at::Tensor values = at::randn({count}, at::kDouble) * 3;
  if (count > 6) values.narrow(0, 0, 6).copy_(at::tensor({0.0, -0.0, most, -most, 30.0, -30.0}, at::kDouble));
  return values;
}

TEST(Matmul, TakesEachTransposeTypeAndOddSize) {
  SHOAL_NEEDS_GPU();
  torch::manual_seed(1);
  for (const at::ScalarType dtype : kTypes)
    for (const auto& [m, n, k] :
         std::vector<std::array<std::int64_t, 3>>{{1, 1, 1}, {5, 3, 7}, {64, 96, 128}, {129, 257, 65}})
      for (const int transposes : {0, 1, 2, 3}) {
        const Operands from = draw(m, n, k, transposes & 1, transposes & 2, dtype);
        const at::Tensor d = nothing_in({m, n}, dtype);
        const fused::DeviceScope device(d);
        kernels::matmul(product_of(from, d), device.stream());
        expect_close(d, exact(from), rounding_of(dtype), std::string(c10::toString(dtype)) + " " + std::to_string(m));
      }
}

TEST(Matmul, WritesBetweenOtherColumns) {
  SHOAL_NEEDS_GPU();
  const Operands from = draw(40, 24, 56, false, true, at::kBFloat16);
  const at::Tensor whole = at::full({40, 64}, 7, from.a.options()), d = whole.narrow(1, 16, 24);
  const fused::DeviceScope device(d);
  kernels::matmul(product_of(from, d), device.stream());
  expect_close(d, exact(from), rounding_of(at::kBFloat16), "the columns in the middle");
  EXPECT_TRUE((whole.narrow(1, 0, 16) == 7).all().item<bool>());
  EXPECT_TRUE((whole.narrow(1, 40, 24) == 7).all().item<bool>());
}

// How a weight's gradient is added up over chunks.
TEST(Matmul, AddsToAnOutputInFullPrecision) {
  SHOAL_NEEDS_GPU();
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16})
    for (const bool deterministic : {false, true}) {
      const Operands first = draw(136, 72, 512, true, false, dtype), second = draw(136, 72, 384, true, false, dtype);
      const at::Tensor d = nothing_in({136, 72}, at::kFloat);
      const fused::DeviceScope device(d);
      for (const int chunk : {0, 1}) {
        Matmul product = product_of(chunk == 0 ? first : second, d);
        product.deterministic = deterministic;
        product.beta = static_cast<float>(chunk);
        product.c = product.d;
        product.c_stride = product.d_stride;
        kernels::matmul(product, device.stream());
      }
      expect_close(d, exact(first) + exact(second), 2e-6, c10::toString(dtype));
    }
}

TEST(Matmul, AlphaScalesAndCIsAnotherMatrix) {
  SHOAL_NEEDS_GPU();
  const Operands from = draw(33, 48, 80, false, false, at::kBFloat16);
  const at::Tensor c = at::randn({33, 48}, from.a.options()), d = nothing_in({33, 48}, at::kBFloat16);
  const fused::DeviceScope device(d);
  Matmul product = product_of(from, d);
  product.alpha = 0.25;
  product.beta = -2;
  product.c = c.const_data_ptr();
  product.c_stride = c.stride(0);
  kernels::matmul(product, device.stream());
  expect_close(d, 0.25 * exact(from) - 2 * c.to(at::kCPU, at::kDouble), rounding_of(at::kBFloat16), "d");
}

TEST(Matmul, AnAuxiliaryMatrixWithAnOddStrideHasNoAlgorithm) {
  SHOAL_NEEDS_GPU();
  const Operands from = draw(16, 20, 8, false, false, at::kBFloat16);
  const at::Tensor d = nothing_in({16, 20}, at::kBFloat16), aux = at::empty_like(d),
                   bias = at::zeros({20}, d.options());
  const fused::DeviceScope device(d);
  Matmul product = product_of(from, d);
  product.epilogue = Epilogue::gelu_aux_bias;
  product.vector = bias.mutable_data_ptr();
  product.aux = aux.mutable_data_ptr();
  product.aux_stride = 20;
  EXPECT_FALSE(kernels::try_matmul(product, device.stream()));
}

TEST(ColumnSums, OfAnyShape) {
  SHOAL_NEEDS_GPU();
  for (const at::ScalarType dtype : kTypes)
    for (const auto& [rows, columns] :
         std::vector<std::array<std::int64_t, 2>>{{0, 8}, {1, 1}, {3, 768}, {1000, 40}, {777, 33}, {5000, 1600}}) {
      const at::Tensor x =
          at::randn({rows, columns + 8}, at::TensorOptions(at::kCUDA).dtype(dtype)).narrow(1, 0, columns);
      const at::Tensor sums = nothing_in({columns}, dtype);
      const at::Tensor partials = nothing_in({kernels::column_sum_partials(rows, columns)}, at::kFloat);
      const fused::DeviceScope device(x);
      kernels::column_sums({x.const_data_ptr(), rows, columns, columns + 8, fused::dtype_of(x)},
                           sums.mutable_data_ptr(), partials.mutable_data_ptr<float>(), device.stream());
      expect_close(sums, x.to(at::kCPU, at::kDouble).sum(0), rounding_of(dtype), std::to_string(rows));
    }
}

TEST(Gelu, FarOutToo) {
  SHOAL_NEEDS_GPU();
  for (const at::ScalarType dtype : kTypes)
    for (const std::int64_t count : {0, 1, 7, 4096, 100003}) {
      const Twin x(far_out(count, dtype), dtype);
      const at::Tensor y = nothing_in({count}, dtype);
      const fused::DeviceScope device(y);
      kernels::gelu(x.device.const_data_ptr(), y.mutable_data_ptr(), count, fused::dtype_of(y), device.stream());
      EXPECT_TRUE(y.isfinite().all().item<bool>());
      const at::Tensor inside = x.host.detach().abs() < 100;  // the norm would see nothing beside the others
      const auto seen = [&](const at::Tensor& values) { return at::where(inside, values.cpu().to(at::kDouble), 0); };
      expect_close(seen(y), seen(at::gelu(x.host, "tanh").detach()), rounding_of(dtype), std::to_string(count));
    }
}

TEST(Gelu, ItsGradientWithTheActivationAndTheSums) {
  SHOAL_NEEDS_GPU();
  torch::manual_seed(4);
  for (const at::ScalarType dtype : kTypes)
    for (const auto& [rows, columns] :
         std::vector<std::array<std::int64_t, 2>>{{0, 8}, {1, 1}, {3, 768}, {777, 33}, {2000, 320}})
      for (const bool more : {false, true}) {
        const Twin x(far_out(rows * columns, dtype).view({rows, columns}), dtype);
        const Twin grad(at::randn({rows, columns}, at::kDouble), dtype, false);
        const at::Tensor dx = grad.device.clone(), y = nothing_in({rows, columns}, dtype),
                         sums = nothing_in({columns}, dtype);
        const at::Tensor partials = nothing_in({kernels::column_sum_partials(rows, columns)}, at::kFloat);
        const fused::DeviceScope device(dx);
        kernels::gelu_backward({rows, columns, fused::dtype_of(dx), x.device.const_data_ptr(), dx.mutable_data_ptr(),
                                more ? y.mutable_data_ptr() : nullptr, more ? sums.mutable_data_ptr() : nullptr,
                                partials.mutable_data_ptr<float>()},
                               device.stream());
        const at::Tensor expected = at::gelu(x.host, "tanh");
        expected.backward(grad.host);
        expect_close(dx, x.host.grad(), rounding_of(dtype), "gradient");
        if (!more) continue;
        expect_close(sums, x.host.grad().sum(0), rounding_of(dtype), "sums");
        EXPECT_TRUE(y.isfinite().all().item<bool>());
        const at::Tensor inside = x.host.detach().abs() < 100;
        expect_close(at::where(inside, y.cpu().to(at::kDouble), 0), at::where(inside, expected.detach(), 0),
                     rounding_of(dtype), "activation");
      }
}

}  // namespace
}  // namespace shoal::testing
