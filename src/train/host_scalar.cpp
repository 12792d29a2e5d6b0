#include "train/host_scalar.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

namespace shoal::train {

HostScalar::HostScalar(const at::Tensor& scalar) : on_host_(scalar.detach()) {
  if (scalar.is_cpu()) return;
  const at::NoGradGuard no_grad;
  on_host_ = at::empty({}, at::TensorOptions(scalar.scalar_type()).pinned_memory(true));
  on_host_.copy_(scalar, /*non_blocking=*/true);
  copied_ = std::make_unique<c10::Event>(scalar.device().type());
  copied_->record(c10::impl::VirtualGuardImpl(scalar.device().type()).getStream(scalar.device()));
}

HostScalar::~HostScalar() = default;
HostScalar::HostScalar(HostScalar&&) noexcept = default;
HostScalar& HostScalar::operator=(HostScalar&&) noexcept = default;

double HostScalar::value() const {
  if (copied_) copied_->synchronize();
  return on_host_.item<double>();
}

}  // namespace shoal::train
