#include "fsdp/copy_stream.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include "fsdp/current_stream.h"

namespace shoal::fsdp {
CopyMark::CopyMark(const c10::Stream& copies, const c10::Stream& current)
    : event_(std::make_unique<c10::Event>(copies.device_type())), made_on_(current) {
  event_->record(copies);
}

CopyMark::~CopyMark() = default;

void CopyMark::wait() {
  if (!event_) return;
  const c10::Stream current = current_stream_of(made_on_->device());
  if (waiting_ == current) return;
  event_->block(current);
  waiting_ = current;
}

void CopyMark::wait_where_made() {
  if (!event_ || waiting_ == made_on_) return;
  event_->block(*made_on_);
  waiting_ = made_on_;
}

CopyStream::CopyStream(at::Device device) : device_(device) {
  if (!device_.is_cpu() && !device_.is_meta())
    stream_ = c10::impl::VirtualGuardImpl(device_.type()).getNewStream(device_);
}

void CopyStream::copy(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  if (!stream_) {
    to.copy_(from);
    return;
  }
  c10::Event queued(device_.type());
  queued.record(current_stream_of(device_));
  queued.block(*stream_);
  const c10::StreamGuard guard(*stream_);
  to.copy_(from, /*non_blocking=*/true);
}

std::shared_ptr<CopyMark> CopyStream::mark() const {
  return stream_ ? std::make_shared<CopyMark>(*stream_, current_stream_of(device_)) : std::make_shared<CopyMark>();
}

}  // namespace shoal::fsdp
