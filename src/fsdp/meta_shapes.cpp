#include "fsdp/meta_shapes.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_dropout.h>

#include <algorithm>
#include <vector>

namespace shoal::fsdp::meta_shapes {
namespace {

std::int64_t number(const c10::SymInt& value) { return value.guard_int(__FILE__, __LINE__); }

std::vector<std::int64_t> numbers(c10::SymIntArrayRef values) {
  std::vector<std::int64_t> result;
  for (const c10::SymInt& value : values) result.push_back(number(value));
  return result;
}

// Of one value for all dimensions, or of one a dimension.
std::int64_t at_dim(c10::SymIntArrayRef values, std::size_t dim) {
  return number(values.size() == 1 ? values[0] : values[dim]);
}

Tensor like(const Tensor& x, bool wanted = true) { return wanted ? at::empty_like(x) : Tensor(); }

// A thread's share of the rows, and the threads of a warp.
constexpr std::int64_t kEmbeddingRowsAThread = 10, kWarp = 32;

}  // namespace

Tensor relu(const Tensor& self) { return like(self); }
Tensor& relu_in_place(Tensor& self) { return self; }

// A result that was resized would not be counted: it gets new memory.
Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  const std::vector<std::int64_t> sizes =
      at::infer_size(at::infer_size(condition.sizes(), self.sizes()), other.sizes());
  const Tensor fresh = at::empty(sizes, out.options());
  out.set_(fresh.storage(), 0, fresh.sizes(), fresh.strides());
  return out;
}

Tensor index_select(const Tensor& self, std::int64_t dim, const Tensor& index) {
  std::vector<std::int64_t> sizes = self.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<std::size_t>(dim < 0 ? dim + self.dim() : dim)] = index.numel();
  return at::empty(sizes, self.options());
}

Tensor nonzero_static(const Tensor& self, c10::SymInt size, std::int64_t /*fill_value*/) {
  return at::empty({number(size), self.dim()}, self.options().dtype(at::kLong));
}

Tensor select_backward(const Tensor& grad, c10::SymIntArrayRef input_sizes, std::int64_t /*dim*/,
                       c10::SymInt /*index*/) {
  return at::empty(numbers(input_sizes), grad.options());
}

template <bool kOnGpu>
std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, c10::SymIntArrayRef normalized_shape,
                                              const OptionalTensor& weight, const OptionalTensor& /*bias*/,
                                              double /*eps*/) {
  std::vector<std::int64_t> rows = input.sizes().vec();
  std::fill(rows.end() - static_cast<std::ptrdiff_t>(normalized_shape.size()), rows.end(), 1);
  const bool mixed = weight && weight->defined() && weight->scalar_type() != input.scalar_type();
  const Tensor statistics =
      at::empty(rows, kOnGpu || mixed ? input.options().dtype(c10::promoteTypes(input.scalar_type(), at::kFloat))
                                      : input.options());
  return {like(input), statistics, at::empty_like(statistics)};
}
template std::tuple<Tensor, Tensor, Tensor> layer_norm<true>(const Tensor&, c10::SymIntArrayRef, const OptionalTensor&,
                                                             const OptionalTensor&, double);
template std::tuple<Tensor, Tensor, Tensor> layer_norm<false>(const Tensor&, c10::SymIntArrayRef, const OptionalTensor&,
                                                              const OptionalTensor&, double);

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& /*grad*/, const Tensor& input,
                                                       c10::SymIntArrayRef /*normalized_shape*/, const Tensor& /*mean*/,
                                                       const Tensor& /*rstd*/, const OptionalTensor& weight,
                                                       const OptionalTensor& bias, std::array<bool, 3> wanted) {
  const auto of = [](const OptionalTensor& parameter, bool is_wanted) {
    return is_wanted && parameter && parameter->defined() ? at::empty_like(*parameter) : Tensor();
  };
  return {like(input, wanted[0]), of(weight, wanted[1]), of(bias, wanted[2])};
}

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double /*p*/, std::optional<bool> /*train*/) {
  return {like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}

Tensor dropout_backward(const Tensor& grad, const Tensor& /*mask*/, double /*scale*/) { return like(grad); }

Tensor choose_dropout(const Tensor& input, double p, bool train) {
  return train && p > 0 ? std::get<0>(at::native_dropout(input, p, train)) : input;
}

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& /*bias*/,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                   bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes[1] = transposed ? weight.size(1) * number(groups) : weight.size(0);
  for (std::size_t i = 2; i < sizes.size(); ++i) {
    const std::size_t dim = i - 2;
    const std::int64_t reach = at_dim(dilation, dim) * (weight.size(static_cast<std::int64_t>(i)) - 1);
    sizes[i] = transposed ? (sizes[i] - 1) * at_dim(stride, dim) - 2 * at_dim(padding, dim) + reach +
                                at_dim(output_padding, dim) + 1
                          : (sizes[i] + 2 * at_dim(padding, dim) - reach - 1) / at_dim(stride, dim) + 1;
  }
  return at::empty(sizes, input.options());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                        at::OptionalSymIntArrayRef bias_sizes,
                                                        c10::SymIntArrayRef /*stride*/, c10::SymIntArrayRef /*padding*/,
                                                        c10::SymIntArrayRef /*dilation*/, bool /*transposed*/,
                                                        c10::SymIntArrayRef /*output_padding*/, c10::SymInt /*groups*/,
                                                        std::array<bool, 3> wanted) {
  const Tensor bias = wanted[2] && bias_sizes ? at::empty(numbers(*bias_sizes), grad.options()) : Tensor();
  return {like(input, wanted[0]), like(weight, wanted[1]), bias};
}

template <bool kOnGpu>
Tensor embedding_backward(const Tensor& grad, const Tensor& indices, c10::SymInt num_weights,
                          c10::SymInt /*padding_idx*/, bool /*scale_grad_by_freq*/) {
  const std::int64_t words = number(num_weights), count = indices.numel(), width = grad.size(-1);
  constexpr std::int64_t kUnsorted = 3072;  // so few are added up in place
  Tensor parts;
  if (kOnGpu && count > kUnsorted) {
    const std::int64_t most = count / kEmbeddingRowsAThread + std::min(count, words);
    parts = at::empty({most, (width + kWarp - 1) / kWarp * kWarp},
                      grad.options().dtype(c10::promoteTypes(grad.scalar_type(), at::kFloat)));
  }
  return at::empty({words, width}, grad.options());
}
template Tensor embedding_backward<true>(const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, bool);
template Tensor embedding_backward<false>(const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, bool);

}  // namespace shoal::fsdp::meta_shapes
