#include "fused/row_products.h"

#include <torch/torch.h>

#include "kernels/column_sums.h"

namespace shoal::fused::products {
namespace {

// A single row may have any stride, of which cuBLASLt would complain.
std::int64_t stride_of(const at::Tensor& rows) { return rows.size(0) > 1 ? rows.stride(0) : rows.size(1); }

kernels::MatmulInput input_of(const at::Tensor& rows, bool transposed) {
  return {.data = rows.const_data_ptr(), .stride = stride_of(rows), .transposed = transposed};
}

// d = a b.
kernels::Matmul product_of(const at::Tensor& a, bool transpose_a, const at::Tensor& b, bool transpose_b,
                           const at::Tensor& d) {
  const bool tf32 = at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
                    at::Float32Precision::TF32;
  return {.m = d.size(0),
          .n = d.size(1),
          .k = a.size(transpose_a ? 0 : 1),
          .a = input_of(a, transpose_a),
          .b = input_of(b, transpose_b),
          .input = dtype_of(a),
          .output = dtype_of(d),
          .d = d.mutable_data_ptr(),
          .d_stride = stride_of(d),
          .allow_tf32 = tf32,
          .deterministic = at::globalContext().deterministicAlgorithms()};
}

}  // namespace

at::Tensor as_rows(const at::Tensor& x) {
  const std::int64_t width = x.size(-1);
  at::Tensor rows = x.reshape({width > 0 ? x.numel() / width : 0, width});
  const bool neighbours = rows.stride(1) == 1 || width == 1;
  const bool apart = rows.stride(0) >= width || rows.size(0) <= 1;
  return neighbours && apart ? rows : rows.contiguous();
}

at::Tensor empty_like_rows(const at::Tensor& x, std::int64_t width) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = width;
  return at::empty(sizes, x.options());
}

kernels::Matmul forward_product(const at::Tensor& x, const at::Tensor& weight, WeightLayout layout,
                                const at::Tensor& d) {
  return product_of(x, false, weight, layout == WeightLayout::out_in, d);
}

kernels::Matmul backward_product(const at::Tensor& grad, const at::Tensor& weight, WeightLayout layout,
                                 const at::Tensor& d) {
  return product_of(grad, false, weight, layout == WeightLayout::in_out, d);
}

void add_bias(kernels::Matmul& product, const at::Tensor& bias) {
  product.epilogue = kernels::Epilogue::bias;
  product.vector = const_cast<void*>(bias.const_data_ptr());
}

void add_residual(kernels::Matmul& product, const at::Tensor& residual) {
  product.beta = 1;
  product.c = residual.const_data_ptr();
  product.c_stride = stride_of(residual);
}

bool multiplied(const kernels::Matmul& product, const DeviceScope& device) {
  return !device.has_memory() || kernels::try_matmul(product, device.stream());
}

void multiply_backward(const at::Tensor& grad, const at::Tensor& weight, WeightLayout layout, const at::Tensor& d,
                       const DeviceScope& device) {
  if (multiplied(backward_product(grad, weight, layout, d), device)) return;
  at::Tensor result = d;
  at::mm_out(result, grad, layout == WeightLayout::out_in ? weight : weight.t());
}

at::Tensor sum_of_rows(const at::Tensor& rows, const DeviceScope& device) {
  const std::int64_t count = rows.size(0), width = rows.size(1);
  at::Tensor sums = at::empty({width}, rows.options());
  const at::Tensor partials = at::empty({kernels::column_sum_partials(count, width)}, rows.options().dtype(at::kFloat));
  if (!device.has_memory()) return sums;
  kernels::column_sums({rows.const_data_ptr(), count, width, stride_of(rows), dtype_of(rows)}, sums.mutable_data_ptr(),
                       partials.mutable_data_ptr<float>(), device.stream());
  return sums;
}

ParameterGradients parameter_gradients(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                                       WeightLayout layout, bool with_bias, bool in_product,
                                       const DeviceScope& device) {
  const bool out_in = layout == WeightLayout::out_in;
  const at::Tensor &left = out_in ? grad : x, &right = out_in ? x : grad;
  at::Tensor of_weight =
      weight.defined() ? empty_gradient(weight) : at::empty({left.size(1), right.size(1)}, grad.options());
  if (grad.size(0) == 0) {
    of_weight.zero_();
    return {of_weight, with_bias ? sum_of_rows(grad, device) : at::Tensor()};
  }
  kernels::Matmul product = product_of(left, true, right, false, of_weight);
  // How cuBLASLt orders the sums of an epilogue is not said anywhere.
  if (with_bias && in_product && !product.deterministic) {
    const at::Tensor bias = at::empty({grad.size(1)}, grad.options());
    product.epilogue = out_in ? kernels::Epilogue::row_sums_of_a : kernels::Epilogue::column_sums_of_b;
    product.vector = bias.mutable_data_ptr();
    if (multiplied(product, device)) return {of_weight, bias};
    product.epilogue = kernels::Epilogue::none;
  }
  if (!multiplied(product, device)) at::mm_out(of_weight, left.t(), right);
  return {of_weight, with_bias ? sum_of_rows(grad, device) : at::Tensor()};
}

}  // namespace shoal::fused::products
