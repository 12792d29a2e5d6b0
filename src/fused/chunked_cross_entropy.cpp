#include "fused/chunked_cross_entropy.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "fused/operators.h"
#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"
#include "shard/shard_layout.h"

namespace shoal::fused {
namespace {

// Rows of logits begin on cache lines, however odd the vocabulary is: tensor cores want it.
constexpr std::int64_t kStrideMultiple = 64;
// Most probabilities among 50,000 are subnormal numbers in fp16. Times this they keep their digits.
constexpr float kHalfScale = 1024;

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kHalf; }

std::int64_t padded(std::int64_t vocabulary) {
  return (vocabulary + kStrideMultiple - 1) / kStrideMultiple * kStrideMultiple;
}

// One chunk where all logits take no more memory than the fp32 sum of the weight's gradients would. In fp16 that sum is
// needed in any case: before it is scaled, a gradient may be beyond 65504.
std::int64_t rows_at_once(const at::Tensor& x, const at::Tensor& weight, std::int64_t logit_bytes) {
  const std::int64_t row_bytes = padded(weight.size(0)) * x.element_size(), sum_bytes = weight.numel() * 4;
  if (!is_half(x) && x.size(0) * row_bytes <= sum_bytes) return std::max<std::int64_t>(x.size(0), 1);
  const std::int64_t fit = std::max<std::int64_t>(logit_bytes / row_bytes, 1);
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(fit)));
}

// The words of an odd vocabulary that stick out of a multiple, and the others: cuBLASLt has no fast algorithm for both
// at once, also where rows are aligned.
std::vector<Range> parts_of(std::int64_t vocabulary) {
  const std::int64_t even = vocabulary / kStrideMultiple * kStrideMultiple;
  std::vector<Range> parts;
  if (even < vocabulary) parts.push_back({even, vocabulary - even});
  if (even > 0) parts.push_back({0, even});
  return parts;
}

// The elements of a row of `stored` are neighbours.
kernels::MatmulInput input(const at::Tensor& stored, bool transposed = false) {
  return {.data = stored.const_data_ptr(), .stride = stored.stride(0), .transposed = transposed};
}

void multiply(kernels::Matmul product, const at::Tensor& like, const at::Tensor& to, const DeviceScope& device) {
  product.input = dtype_of(like);
  product.output = dtype_of(to);
  product.d = to.mutable_data_ptr();
  product.d_stride = to.stride(0);
  if (product.beta != 0) product.c = product.d;
  product.c_stride = product.d_stride;
  product.allow_tf32 = at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
                       at::Float32Precision::TF32;
  product.deterministic = at::globalContext().deterministicAlgorithms();
  kernels::matmul(product, device.stream());
}

struct Chunk {
  at::Tensor x, targets, losses, x_gradient;
  at::Tensor logits;  // [count, padded(vocabulary)]
  bool is_first = false;
};

void run(const Chunk& chunk, const at::Tensor& weight, std::int64_t ignored, const at::Tensor& weight_gradient,
         const DeviceScope& device) {
  const std::int64_t count = chunk.x.size(0), vocabulary = weight.size(0), width = weight.size(1);
  const float scale = is_half(chunk.x) ? kHalfScale : 1;
  const std::vector<Range> parts = parts_of(vocabulary);
  for (const auto& [begin, words] : parts)
    multiply(
        {.m = count, .n = words, .k = width, .a = input(chunk.x), .b = input(weight.narrow(0, begin, words), true)},
        weight, chunk.logits.narrow(1, begin, words), device);
  const kernels::LogitRows rows{.logits = chunk.logits.mutable_data_ptr(),
                                .dtype = dtype_of(chunk.logits),
                                .count = count,
                                .vocabulary = vocabulary,
                                .stride = chunk.logits.size(1),
                                .targets = chunk.targets.const_data_ptr<std::int64_t>(),
                                .ignored = ignored};
  auto* const losses = chunk.losses.mutable_data_ptr<float>();
  if (!chunk.x_gradient.defined() && !weight_gradient.defined())
    return kernels::cross_entropy(rows, losses, device.stream());
  kernels::cross_entropy_with_gradient(rows, scale, losses, device.stream());
  for (const auto& [begin, words] : parts) {
    const at::Tensor logits = chunk.logits.narrow(1, begin, words);
    // The smaller part comes first: it alone is rounded once more.
    kernels::Matmul product{.m = count, .n = width, .k = words, .alpha = 1 / scale};
    product.beta = begin == parts[0].begin ? 0.0F : 1.0F;
    product.a = input(logits);
    product.b = input(weight.narrow(0, begin, words));
    if (chunk.x_gradient.defined()) multiply(product, weight, chunk.x_gradient, device);
    if (!weight_gradient.defined()) continue;
    product = {.m = words, .n = width, .k = count, .alpha = 1 / scale, .beta = chunk.is_first ? 0.0F : 1.0F};
    product.a = input(logits, true);
    product.b = input(chunk.x);
    multiply(product, weight, weight_gradient.narrow(0, begin, words), device);
  }
}

}  // namespace

CrossEntropyResult chunked_cross_entropy(const CrossEntropyProblem& problem, std::int64_t logit_bytes) {
  const DeviceScope device(problem.x);
  const at::Tensor x = problem.x.contiguous(), weight = problem.weight.contiguous();
  const at::Tensor targets = problem.targets.contiguous();
  const std::int64_t count = x.size(0), at_once = rows_at_once(x, weight, logit_bytes);
  const at::Tensor losses = at::empty({count}, x.options().dtype(at::kFloat));
  CrossEntropyResult result;
  if (problem.x_wanted) result.x = at::empty_like(x);
  if (problem.weight_wanted)
    result.weight = at::empty_like(weight, count <= at_once && !is_half(x) ? weight.options() : losses.options());
  if (problem.weight_wanted && count == 0) result.weight.zero_();
  const at::Tensor logits = at::empty({std::min(count, at_once), padded(weight.size(0))}, x.options());
  for (std::int64_t begin = 0; begin < count; begin += at_once) {
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.slice(0, begin, begin + at_once) : at::Tensor();
    };
    const Chunk chunk{part(x),   part(targets), part(losses), part(result.x), logits.slice(0, 0, count - begin),
                      begin == 0};
    if (device.has_memory()) run(chunk, weight, problem.ignored, result.weight, device);
  }
  result.loss = losses.sum(at::kDouble).to(at::kFloat);
  return result;
}

}  // namespace shoal::fused
