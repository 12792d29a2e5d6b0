// What tests of products on a GPU have in common: inputs that hold the same numbers here in fp64 and there in another
// type, errors, poisoned memory, times.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace shoal::testing {

inline bool has_gpu() { return torch::cuda::is_available(); }
#define SHOAL_NEEDS_GPU() \
  if (!::shoal::testing::has_gpu()) GTEST_SKIP() << "no GPU here"

inline const std::vector<at::ScalarType> kTypes{at::kFloat, at::kHalf, at::kBFloat16};

// A tensor in `dtype` on the GPU and its values in fp64 on the CPU, both leaves.
struct Twin {
  at::Tensor device, host;

  Twin() = default;
  Twin(const at::Tensor& values, at::ScalarType dtype, bool with_gradient = true)
      : device(values.to(at::kCUDA, dtype)), host(device.to(at::kCPU, at::kDouble)) {
    device.requires_grad_(with_gradient);
    host.requires_grad_(with_gradient);
  }
  bool defined() const { return device.defined(); }
};

// || a - b || / || b ||, where few numbers that nearly cancel count as others of about 1; infinite where a is not
// finite.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kCPU, at::kDouble), y = b.detach().to(at::kCPU, at::kDouble);
  if (x.sizes() != y.sizes() || !x.isfinite().all().item<bool>()) return std::numeric_limits<double>::infinity();
  const double scale = y.norm().item<double>(), error = (x - y).norm().item<double>();
  return error / std::max(scale, 0.3 * std::sqrt(static_cast<double>(std::max<std::int64_t>(y.numel(), 1))));
}

// What one rounding to `dtype` costs at most, and a little for sums in fp32.
inline double rounding_of(at::ScalarType dtype) {
  if (dtype == at::kFloat) return 4e-6;
  return dtype == at::kHalf ? 5e-4 : 4e-3;
}

inline void expect_close(const at::Tensor& value, const at::Tensor& expected, double bound, const std::string& what) {
  ASSERT_TRUE(value.defined()) << what;
  EXPECT_LE(relative_error(value, expected), bound) << what;
}

inline void expect_gradients_close(const std::vector<std::pair<std::string, Twin>>& inputs, double bound) {
  for (const auto& [name, twin] : inputs) {
    if (!twin.defined() || !twin.host.requires_grad()) continue;
    EXPECT_EQ(twin.device.grad().scalar_type(), twin.device.scalar_type()) << name;
    expect_close(twin.device.grad(), twin.host.grad(), bound, "gradient of " + name);
  }
}

// Memory that LibTorch hands out next holds NaN, in small blocks and in large ones.
inline void poison_memory() {
  const at::TensorOptions options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
  std::vector<at::Tensor> blocks{at::full({1 << 24}, std::nan(""), options)};
  for (int i = 0; i < 64; ++i) blocks.push_back(at::full({1 << 14}, std::nan(""), options));
}

// Milliseconds of a call, of many queued at once.
template <typename Call>
double milliseconds_of(Call&& call) {
  constexpr int kWarm = 3, kCalls = 20;
  for (int i = 0; i < kWarm; ++i) call();
  torch::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  torch::cuda::synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

}  // namespace shoal::testing
