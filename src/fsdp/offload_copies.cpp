#include "fsdp/offload_copies.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "core/logging.h"
#include "fsdp/unit_trace.h"

namespace shoal::fsdp {
namespace {

c10::Stream new_stream(at::Device device, bool urgent = false) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, urgent);
}

}  // namespace

struct OffloadCopies::Streams {
  explicit Streams(at::Device device)
      : to_host(new_stream(device)), to_device(new_stream(device)), ahead(new_stream(device, /*urgent=*/true)) {}
  c10::Stream to_host, to_device, ahead;  // ahead: of to_device_then()
  DeviceMark ready;                       // what to_host copies is computed
  DeviceMark free;                        // nobody reads any more what to_device overwrites
  DeviceMark unused;                      // nor what a copy of `ahead` overwrites
};

OffloadCopies::OffloadCopies(at::Device device)
    : device_(device), streams_(device.is_cpu() ? nullptr : std::make_unique<Streams>(device)) {}

OffloadCopies::~OffloadCopies() {
  try {
    for (Sent& sent : sent_) sent.copied->wait();
  } catch (const std::exception& error) {
    log::error("copies from the GPU did not end: {}", error.what());
  }
}

void OffloadCopies::to_host(at::Tensor from, BufferPool& pool, const at::Tensor& to, DeviceMark& done) {
  const at::NoGradGuard no_grad;
  if (!streams_) {
    to.copy_(from);
    pool.release(std::move(from));
    return;
  }
  streams_->ready.record(device_);
  auto copied = std::make_unique<DeviceMark>();
  {
    const c10::StreamGuard on(streams_->to_host);
    streams_->ready.hold_back(device_);
    const auto start = trace_ != nullptr ? trace_->mark() : nullptr;
    to.copy_(from, /*non_blocking=*/true);
    done.record(device_);
    copied->record(device_);
    if (trace_ != nullptr)
      trace_->add(Trace::Lane::copy, "gradient to the host", start, static_cast<std::int64_t>(from.nbytes()));
  }
  sent_.push_back({std::move(from), &pool, std::move(copied)});
  take_back(kCopiesInFlight);
}

void OffloadCopies::take_back(std::size_t left) {
  for (; sent_.size() > left; sent_.pop_front()) {
    Sent& oldest = sent_.front();
    oldest.copied->hold_back(device_);
    oldest.pool->release(std::move(oldest.buffer));
  }
}

void OffloadCopies::to_device_then(const at::Tensor& from, const at::Tensor& to, DeviceMark& done,
                                   const std::function<void()>& next) {
  const at::NoGradGuard no_grad;
  if (!streams_) {
    to.copy_(from);
    return next();
  }
  streams_->unused.record(device_);
  const c10::StreamGuard on(streams_->ahead);
  streams_->unused.hold_back(device_);
  const auto start = trace_ != nullptr ? trace_->mark() : nullptr;
  to.copy_(from, /*non_blocking=*/true);
  done.record(device_);
  if (trace_ != nullptr)
    trace_->add(Trace::Lane::copy, from.is_cpu() ? "parameters from the host" : "parameters rounded", start,
                static_cast<std::int64_t>(from.nbytes()));
  next();
}

void OffloadCopies::begin_to_device() {
  if (streams_) streams_->free.record(device_);
}

void OffloadCopies::to_device(const at::Tensor& from, const at::Tensor& to, DeviceMark& done) {
  const at::NoGradGuard no_grad;
  if (!streams_) {
    to.copy_(from);
    return;
  }
  const c10::DeviceGuard here(device_);
  const c10::StreamGuard on(streams_->to_device);
  streams_->free.hold_back(device_);
  to.copy_(from, /*non_blocking=*/true);
  done.record(device_);
}

}  // namespace shoal::fsdp
