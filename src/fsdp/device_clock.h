// When work that is queued for a device is done, on the clock of a trace.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "core/trace.h"

namespace c10 {
class Stream;
}

namespace shoal::fsdp {

class DeviceMoment;

// For one thread at a time.
class DeviceClock {
 public:
  // For a GPU: blocks the host until it has done what is queued on this thread's current stream, since that is what
  // lays the two clocks over each other.
  DeviceClock(const Trace& trace, c10::Device device);
  ~DeviceClock();

  // The end of what was queued on this thread's current stream of the device, or on `stream`; on a CPU: now.
  std::shared_ptr<Moment> mark();
  std::shared_ptr<Moment> mark(const c10::Stream& stream);
  // Later moments are measured from here: a GPU's clock tells times as floats, which get coarse over minutes.
  void rebase();

 private:
  std::shared_ptr<DeviceMoment> record(const c10::Stream& stream);

  const Trace* trace_;
  c10::Device device_;
  std::shared_ptr<DeviceMoment> base_;  // null for a CPU
};

}  // namespace shoal::fsdp
