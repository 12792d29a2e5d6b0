// Memory of the host beside a GPU: what offloaded tensors live in, and copies to it that run while the host goes on.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace c10 {
struct Event;
}

namespace shoal::fsdp {

// Zeros on `device`, or with `on_host` in memory of the host, pinned where `device` is a GPU that copies from it.
at::Tensor zeros_on(at::Device device, bool on_host, std::int64_t numel, at::ScalarType dtype, bool copied = true);
// Zeros in memory that only the host works on: in large pages where there are some, near the cores of the threads that
// optim::in_parallel() gives the same elements to.
at::Tensor host_zeros(std::int64_t numel, at::ScalarType dtype);

// Ends when what was queued for a device before record() is done.
class DeviceMark {
 public:
  DeviceMark();
  ~DeviceMark();
  DeviceMark(const DeviceMark&) = delete;
  DeviceMark& operator=(const DeviceMark&) = delete;

  // Marks this thread's current stream of `device`. Nothing where that is the CPU.
  void record(at::Device device);
  // Blocks the host; returns at once where nothing was recorded since the last wait.
  void wait();
  // What this thread's current stream of `device` gets from now on waits for it; the host does not.
  void hold_back(at::Device device) const;

 private:
  std::unique_ptr<c10::Event> event_;
  bool pending_ = false;
};

}  // namespace shoal::fsdp
