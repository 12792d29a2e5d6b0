#include "fsdp/host_memory.h"

#include <sys/mman.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>

#include "fsdp/current_stream.h"

namespace shoal::fsdp {

at::Tensor zeros_on(at::Device device, bool on_host, std::int64_t numel, at::ScalarType dtype, bool copied) {
  const auto options = at::TensorOptions().dtype(dtype);
  if (!on_host) return at::zeros({numel}, options.device(device));
  if (device.is_cpu() || !copied) return host_zeros(numel, dtype);
  return at::zeros({numel}, options.device(at::kCPU).pinned_memory(true));
}

at::Tensor host_zeros(std::int64_t numel, at::ScalarType dtype) {
  constexpr std::uintptr_t kPage = 2 << 20;
  at::Tensor zeros = at::empty({numel}, dtype);
  const auto begin = reinterpret_cast<std::uintptr_t>(zeros.data_ptr()), end = begin + zeros.nbytes();
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  // A wish: where it is refused, pages are small.
  if (first + kPage <= end) ::madvise(reinterpret_cast<void*>(first), (end - first) / kPage * kPage, MADV_HUGEPAGE);
  return zeros.zero_();  // the first to touch a page decides where it lies
}

DeviceMark::DeviceMark() = default;
DeviceMark::~DeviceMark() = default;

void DeviceMark::record(at::Device device) {
  if (device.is_cpu()) return;
  if (!event_) event_ = std::make_unique<c10::Event>(device.type());
  event_->record(current_stream_of(device));
  pending_ = true;
}

void DeviceMark::wait() {
  if (!pending_) return;
  event_->synchronize();
  pending_ = false;
}

void DeviceMark::hold_back(at::Device device) const {
  if (!event_) return;
  event_->block(current_stream_of(device));
}

}  // namespace shoal::fsdp
