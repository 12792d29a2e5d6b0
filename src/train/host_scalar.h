// A number that a device computed, read on the host without waiting for what was queued after it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace c10 {
struct Event;
}

namespace shoal::train {

class HostScalar {
 public:
  // Queues the copy of a tensor of one element behind what its device's current stream has so far.
  explicit HostScalar(const at::Tensor& scalar);
  ~HostScalar();
  HostScalar(HostScalar&&) noexcept;
  HostScalar& operator=(HostScalar&&) noexcept;

  // Blocks the host until the copy is done, no longer.
  double value() const;

 private:
  at::Tensor on_host_;
  std::unique_ptr<c10::Event> copied_;  // null: it was on the host from the beginning
};

}  // namespace shoal::train
