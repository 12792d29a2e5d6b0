#include "train/warm_up.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

#include "fused/attention.h"

namespace shoal::train {
namespace {

at::Tensor input(at::IntArrayRef sizes, at::TensorOptions options) {
  return at::zeros(sizes, options).set_requires_grad(true);
}

void back(const at::Tensor& result) { result.backward(at::ones_like(result)); }

void multiply(at::TensorOptions options) {
  constexpr std::int64_t kSize = 256;
  back(at::linear(input({kSize, kSize}, options), input({kSize, kSize}, options), input({kSize}, options)));
}

void attend(const WarmUpPlan& plan, at::TensorOptions options) {
  const auto heads = [&](std::int64_t count) {
    return input({1, plan.sequence_length, count, plan.head_size}, options);
  };
  back(fused::attention(heads(plan.heads), heads(plan.kv_heads), heads(plan.kv_heads), {.causal = true}));
}

void convolve(at::TensorOptions options) {
  back(at::conv2d(input({8, 32, 16, 16}, options), input({64, 32, 3, 3}, options), input({64}, options)));
}

void call_libraries(at::Device device, const WarmUpPlan& plan) {
  const c10::DeviceGuard on(device);
  const auto options = at::TensorOptions(device).dtype(plan.dtype);
  multiply(options);
  if (plan.heads > 0)
    attend(plan, options);
  else
    convolve(options);
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

}  // namespace

WarmUp::WarmUp(c10::Device device, const WarmUpPlan& plan) : device_(device) {
  if (device.is_cpu()) return;
  thread_ = std::thread([device, plan] {
    try {
      call_libraries(device, plan);
    } catch (const std::exception&) {  // finish() says why
    }
  });
}

void WarmUp::finish() {
  if (!thread_.joinable()) return;
  thread_.join();
  at::getDeviceAllocator(device_.type())->emptyCache();
}

}  // namespace shoal::train
