// Attention on the layout of the projections against the formula in float64: grouped heads, odd lengths, gradients.
#include "fused/attention.h"

#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "support/gpu.h"

namespace shoal::fused {
namespace {

using testing::poison_gpu_memory;
using testing::relative_error;

struct Shape {
  std::int64_t samples, length, heads, kv_heads, head_size;
};

struct Inputs {
  at::Tensor query, key, value, gradient;  // the last of the result
};

Inputs make_inputs(const Shape& shape, at::ScalarType type, at::Device device, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto draw = [&](std::int64_t heads) {
    const std::vector<std::int64_t> sizes{shape.samples, shape.length, heads, shape.head_size};
    return at::randn(sizes, generator, at::kFloat).to(device, type);
  };
  return {draw(shape.heads).requires_grad_(), draw(shape.kv_heads).requires_grad_(),
          draw(shape.kv_heads).requires_grad_(), draw(shape.heads)};
}

std::vector<at::Tensor> gradients(const Inputs& inputs, const at::Tensor& result) {
  result.backward(inputs.gradient);
  return {inputs.query.grad(), inputs.key.grad(), inputs.value.grad()};
}

Inputs exact(const Inputs& inputs) {
  const auto wide = [](const at::Tensor& t) { return t.detach().to(at::kCPU, at::kDouble).requires_grad_(); };
  return {wide(inputs.query), wide(inputs.key), wide(inputs.value), wide(inputs.gradient).detach()};
}

double bound(at::ScalarType type) {
  return type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1.5e-2;
}

void check(const Shape& shape, bool causal, at::ScalarType type, at::Device device) {
  const Inputs given = make_inputs(shape, type, device, 1), wide = exact(given);
  const at::Tensor got = attention(given.query, given.key, given.value, {.causal = causal});
  const at::Tensor expected = reference::attention(wide.query, wide.key, wide.value, causal);
  const std::string where = fmt::format("{} x {} x {} of {} x {}, causal {}", shape.samples, shape.length, shape.heads,
                                        shape.kv_heads, shape.head_size, causal);
  EXPECT_TRUE(got.is_contiguous()) << where;
  EXPECT_LE(relative_error(got, expected), bound(type)) << where;
  const auto ours = gradients(given, got), theirs = gradients(wide, expected);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_LE(relative_error(ours[i], theirs[i]), bound(type)) << where << ", gradient " << i;
}

// Queries, keys and values as the packed projection has them.
at::Tensor pack(const Inputs& inputs) {
  return at::stack({inputs.query, inputs.key, inputs.value}, 2).flatten(2).detach().requires_grad_();
}

void check_packed(const Shape& shape, at::ScalarType type, at::Device device) {
  const Inputs given = make_inputs(shape, type, device, 2);
  const at::Tensor qkv = pack(given), qkv_exact = qkv.detach().to(at::kCPU, at::kDouble).requires_grad_();
  const at::Tensor got = packed_attention(qkv, shape.heads, {.causal = true});
  const auto parts = qkv_exact.unflatten(-1, {3, shape.heads, shape.head_size}).unbind(2);
  const at::Tensor expected = reference::attention(parts[0], parts[1], parts[2], true).flatten(2);
  EXPECT_TRUE(got.is_contiguous());
  EXPECT_LE(relative_error(got, expected), bound(type));
  got.backward(given.gradient.flatten(2));
  expected.backward(given.gradient.flatten(2).to(at::kCPU, at::kDouble));
  EXPECT_TRUE(qkv.grad().is_contiguous());
  EXPECT_LE(relative_error(qkv.grad(), qkv_exact.grad()), bound(type));
}

const std::vector<Shape> kShapes{{2, 64, 4, 4, 64}, {3, 37, 4, 2, 64}, {1, 129, 8, 1, 128},
                                 {2, 1, 2, 2, 32},  {1, 50, 3, 3, 40}, {2, 96, 6, 2, 16}};

TEST(Attention, OnTheCpuIsTheFormula) {
  for (const Shape& shape : kShapes)
    for (const bool causal : {false, true}) check(shape, causal, at::kDouble, at::kCPU);
  check_packed({2, 37, 4, 4, 16}, at::kDouble, at::kCPU);
}

class AttentionOnGpu : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    SHOAL_SKIP_WITHOUT_GPU();
    poison_gpu_memory();
  }
};

TEST_P(AttentionOnGpu, IsTheFormula) {
  for (const Shape& shape : kShapes)
    for (const bool causal : {false, true}) check(shape, causal, GetParam(), at::kCUDA);
}

TEST_P(AttentionOnGpu, TakesPackedProjections) {
  for (const Shape& shape : {Shape{2, 64, 4, 4, 64}, Shape{3, 37, 4, 4, 64}, Shape{1, 200, 2, 2, 128}})
    check_packed(shape, GetParam(), at::kCUDA);
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionOnGpu, ::testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

at::SDPBackend kernel_for(const Inputs& inputs) {
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const bool grouped = inputs.query.size(2) != inputs.key.size(2);
  return static_cast<at::SDPBackend>(at::_fused_sdp_choice(heads_first(inputs.query), heads_first(inputs.key),
                                                           heads_first(inputs.value), {}, 0, true, std::nullopt,
                                                           grouped));
}

// A permuted copy would take as much memory again as what it copies.
TEST(AttentionMemory, HoldsTheResultAndALittleMore) {
  SHOAL_SKIP_WITHOUT_GPU();
  const at::Tensor qkv =
      at::randn({4, 1024, 3 * 768}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16)).requires_grad_();
  at::Tensor result;
  const testing::GpuCost cost =
      testing::gpu_cost_of([&] { result = packed_attention(qkv, 12, {.causal = true}); }, /*calls=*/1);
  const double result_gib = 4.0 * 1024 * 768 * 2 / (1 << 30);
  // A call's result replaces the one before it, which is there until then.
  EXPECT_LT(cost.peak_gib, 1.25 * result_gib);
}

TEST(AttentionTimes, DISABLED_OfThreeModels) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const Shape& shape : {Shape{32, 1024, 12, 12, 64}, Shape{8, 1024, 25, 25, 64}, Shape{1, 4096, 32, 8, 128}}) {
    const Inputs given = make_inputs(shape, at::kBFloat16, at::kCUDA, 1);
    const bool packed = shape.heads == shape.kv_heads;
    const at::Tensor qkv = packed ? pack(given) : at::Tensor();
    const auto forward = [&] {
      return packed ? packed_attention(qkv, shape.heads, {.causal = true}).view_as(given.gradient)
                    : attention(given.query, given.key, given.value, {.causal = true});
    };
    const testing::GpuCost there = testing::gpu_cost_of([&] { forward(); });
    const testing::GpuCost and_back = testing::gpu_cost_of([&] { forward().backward(given.gradient); });
    fmt::print("{} x {} x {} of {} x {}: {:.3f} ms, with gradients {:.3f} ms, kernel {} (cuDNN's is {})\n",
               shape.samples, shape.length, shape.heads, shape.kv_heads, shape.head_size, there.milliseconds,
               and_back.milliseconds, static_cast<int>(kernel_for(given)),
               static_cast<int>(at::SDPBackend::cudnn_attention));
  }
}

}  // namespace
}  // namespace shoal::fused
