// SwiGLU and rotary positions: on the CPU the reference to the bit, on a GPU against float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fused/rope.h"
#include "fused/swiglu.h"
#include "support/gpu.h"

namespace shoal::testing {
namespace {

using at::Tensor;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf, at::kBFloat16};

double bound_of(at::ScalarType type) { return type == at::kFloat ? 1e-6 : type == at::kHalf ? 4e-4 : 3e-3; }

Tensor random(at::IntArrayRef sizes, at::ScalarType type, at::Device device, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return (at::randn(sizes, generator, at::kFloat) * 2).to(device, type);
}

Tensor exact_leaf(const Tensor& values) { return values.detach().to(at::kCPU, at::kDouble).requires_grad_(); }

Tensor leaf(const Tensor& values) { return values.detach().requires_grad_(); }

// ---- SwiGLU

TEST(SwiGlu, OnTheCpuIsTheReferenceToTheBit) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensor gate = random({5, 7}, type, at::kCPU, 1), up = random({5, 7}, type, at::kCPU, 2);
    EXPECT_TRUE(fused::swiglu(gate, up).equal(at::silu(gate) * up));
  }
}

void expect_swiglu_close(const Tensor& gate, const Tensor& up) {
  const Tensor grad = random(gate.sizes(), gate.scalar_type(), at::kCPU, 3);
  const Tensor exact_gate = exact_leaf(gate), exact_up = exact_leaf(up);
  const Tensor expected = at::silu(exact_gate) * exact_up;
  expected.backward(grad.to(at::kDouble));
  poison_gpu_memory();
  const Tensor our_gate = leaf(gate), our_up = leaf(up), got = fused::swiglu(our_gate, our_up);
  got.backward(grad.to(at::kCUDA));
  const double bound = bound_of(gate.scalar_type());
  EXPECT_EQ(got.scalar_type(), gate.scalar_type());
  EXPECT_LE(relative_error(got, expected), bound);
  EXPECT_LE(relative_error(our_gate.grad(), exact_gate.grad()), bound);
  EXPECT_LE(relative_error(our_up.grad(), exact_up.grad()), bound);
}

TEST(SwiGluKernels, AgreeWithFloat64) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const at::ScalarType type : kTypes)
    for (const std::vector<std::int64_t>& sizes :
         std::vector<std::vector<std::int64_t>>{{1}, {7}, {8}, {0, 16}, {3, 33}, {64, 200}, {2, 513, 1376}}) {
      SCOPED_TRACE(fmt::format("{} {}", c10::toString(type), fmt::join(sizes, "x")));
      expect_swiglu_close(random(sizes, type, at::kCUDA, 1), random(sizes, type, at::kCUDA, 2));
    }
}

TEST(SwiGluKernels, TakeHalvesOfOneProjection) {
  SHOAL_SKIP_WITHOUT_GPU();
  const auto halves = random({33, 128}, at::kBFloat16, at::kCUDA, 1).chunk(2, -1);
  expect_swiglu_close(halves[0], halves[1]);
}

TEST(SwiGluKernels, LargeNumbersSaturate) {
  SHOAL_SKIP_WITHOUT_GPU();
  const Tensor gate = at::tensor({-200.0F, -90.0F, 0.0F, 90.0F, 200.0F}).cuda(), up = at::ones_like(gate);
  EXPECT_TRUE(fused::swiglu(gate, up).cpu().allclose(at::tensor({0.0F, 0.0F, 0.0F, 90.0F, 200.0F})));
}

// ---- Rotary positions

struct Tables {
  Tensor cos, sin;
};

Tables tables(std::int64_t length, std::int64_t d, at::ScalarType type, at::Device device) {
  const Tensor frequency = at::pow(10000.0, at::arange(d / 2, at::kDouble) * (-2.0 / static_cast<double>(d)));
  const Tensor angle = at::outer(at::arange(length, at::kDouble), frequency).repeat({1, 2});
  return {angle.cos().to(device, type), angle.sin().to(device, type)};
}

TEST(Rope, OnTheCpuIsTheReferenceToTheBit) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensor x = random({2, 5, 3, 8}, type, at::kCPU, 1);
    const auto [cos, sin] = tables(5, 8, type, at::kCPU);
    EXPECT_TRUE(fused::rotate(x, cos, sin).equal(fused::reference::rotate(x, cos, sin)));
  }
}

void expect_rotation_close(const Tensor& x) {
  const auto [cos, sin] = tables(x.size(1), x.size(3), x.scalar_type(), at::kCUDA);
  const Tensor grad = random(x.sizes(), x.scalar_type(), at::kCPU, 3), exact_x = exact_leaf(x);
  const Tensor expected =
      fused::reference::rotate(exact_x, cos.to(at::kCPU, at::kDouble), sin.to(at::kCPU, at::kDouble));
  expected.backward(grad.to(at::kDouble));
  poison_gpu_memory();
  const Tensor ours = leaf(x), got = fused::rotate(ours, cos, sin);
  got.backward(grad.to(at::kCUDA));
  const double bound = bound_of(x.scalar_type());
  EXPECT_TRUE(got.is_contiguous());
  EXPECT_LE(relative_error(got, expected), bound);
  EXPECT_LE(relative_error(ours.grad(), exact_x.grad()), bound);
}

TEST(RopeKernels, AgreeWithFloat64) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const at::ScalarType type : kTypes)
    for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
             {1, 1, 1, 2}, {2, 5, 3, 6}, {1, 9, 2, 16}, {3, 17, 4, 64}, {2, 33, 40, 128}, {0, 4, 2, 8}}) {
      SCOPED_TRACE(fmt::format("{} {}", c10::toString(type), fmt::join(sizes, "x")));
      expect_rotation_close(random(sizes, type, at::kCUDA, 1));
    }
}

TEST(RopeKernels, TakePartsOfWiderProjectionsAndOtherLayouts) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const at::ScalarType type : kTypes) {
    const Tensor packed = random({2, 9, 3 * 4 * 32}, type, at::kCUDA, 1);
    expect_rotation_close(packed.slice(-1, 4 * 32, 2 * 4 * 32).unflatten(-1, {4, 32}));
    expect_rotation_close(packed.slice(-1, 1, 1 + 4 * 32).unflatten(-1, {4, 32}));
    expect_rotation_close(random({2, 4, 9, 32}, type, at::kCUDA, 1).transpose(1, 2));
  }
}

}  // namespace
}  // namespace shoal::testing
