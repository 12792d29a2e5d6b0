// What tests and benchmarks of GPU code have in common.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#define SHOAL_SKIP_WITHOUT_GPU() \
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU here"

namespace shoal::testing {

// What is allocated next holds NaN where nobody has written to it.
inline void poison_gpu_memory() {
  for (const std::int64_t bytes : {std::int64_t{1} << 18, std::int64_t{1} << 20, std::int64_t{1} << 28})
    at::full({bytes / 4}, std::numeric_limits<float>::quiet_NaN(), at::TensorOptions(at::kCUDA).dtype(at::kFloat));
}

// |got - exact| / |exact| by the 2-norm, in float64; that of `got` where `exact` is zero. NaN counts as wrong.
inline double relative_error(const at::Tensor& got, const at::Tensor& exact) {
  const auto wide = [](const at::Tensor& t) { return t.detach().to(at::kCPU, at::kDouble); };
  const double norm = wide(exact).norm().item<double>();
  const double error = (wide(got) - wide(exact)).norm().item<double>() / (norm > 0 ? norm : 1);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

struct GpuCost {
  double milliseconds = 0;  // a call, the mean of several
  double peak_gib = 0;      // beyond what was allocated before
};

inline GpuCost gpu_cost_of(const std::function<void()>& call, int calls = 10) {
  auto* const allocator = at::getDeviceAllocator(at::kCUDA);
  const auto allocated = [&] {
    using c10::CachingAllocator::StatType;
    return allocator->getDeviceStats(0).allocated_bytes[static_cast<std::size_t>(StatType::AGGREGATE)];
  };
  for (int i = 0; i < 3; ++i) call();
  torch::cuda::synchronize();
  const auto before = allocated().current;
  allocator->resetPeakStats(0);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  torch::cuda::synchronize();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  return {spent.count() / calls, static_cast<double>(allocated().peak - before) / (1 << 30)};
}

}  // namespace shoal::testing
