#include "fsdp/host_memory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/check.h"

namespace shoal::fsdp {

std::byte* host_memory(const at::Tensor& tensor, StateDict& state) {
  SHOAL_ASSERT(tensor.is_contiguous());
  if (tensor.is_cpu()) return static_cast<std::byte*>(tensor.data_ptr());
  const auto copy = std::make_shared<at::Tensor>(tensor.cpu());
  state.owned.push_back(copy);
  state.on_loaded.push_back([tensor, copy] {
    const at::NoGradGuard no_grad;
    at::Tensor(tensor).copy_(*copy);
  });
  return static_cast<std::byte*>(copy->data_ptr());
}

at::Tensor zeros_on(at::Device device, bool on_host, std::int64_t numel, at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  return at::zeros({numel},
                   on_host ? options.device(at::kCPU).pinned_memory(!device.is_cpu()) : options.device(device));
}

DeviceMark::DeviceMark() = default;
DeviceMark::~DeviceMark() = default;

void DeviceMark::record(at::Device device) {
  if (device.is_cpu()) return;
  if (!event_) event_ = std::make_unique<c10::Event>(device.type());
  event_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  pending_ = true;
}

void DeviceMark::wait() {
  if (!pending_) return;
  event_->synchronize();
  pending_ = false;
}

}  // namespace shoal::fsdp
