// Copies between a GPU and the host's pinned memory, and into buffers of another type, beside the computation: on
// streams of their own.
//
// Where the "device" is the CPU, which is for tests, they are done when the call returns.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "fsdp/buffer_pool.h"
#include "fsdp/host_memory.h"

namespace shoal::fsdp {

class UnitTrace;

// Shards of gradients on the device that wait for their copy: the copy of one, while the next is being summed.
inline constexpr std::size_t kCopiesInFlight = 2;

class OffloadCopies {
 public:
  explicit OffloadCopies(at::Device device);
  ~OffloadCopies();
  OffloadCopies(const OffloadCopies&) = delete;
  OffloadCopies& operator=(const OffloadCopies&) = delete;

  // Copies `from`, on the device, to `to` after what the current stream has queued so far. `from` is a buffer of `pool`
  // and goes back there once it can be written to in the order of the current stream. `done` ends with the copy.
  void to_host(at::Tensor from, BufferPool& pool, const at::Tensor& to, DeviceMark& done);

  // Copies `from`, on the host or of another type, to `to` on the device after what the current stream has queued so
  // far, and calls `next`, which queues what is to follow the copy. `done` ends with the copy.
  void to_device_then(const at::Tensor& from, const at::Tensor& to, DeviceMark& done,
                      const std::function<void()>& next);

  // Copies to the host are recorded there; null: nowhere. Outlives this, or is taken back before.
  void set_trace(UnitTrace* trace) { trace_ = trace; }

  // What the current stream has queued so far comes before the copies of to_device() that follow. They may be called by
  // another thread, one at a time.
  void begin_to_device();
  // Copies `from`, on the host, to `to`. `done` ends with the copy.
  void to_device(const at::Tensor& from, const at::Tensor& to, DeviceMark& done);

 private:
  struct Streams;
  struct Sent {
    at::Tensor buffer;
    BufferPool* pool;
    std::unique_ptr<DeviceMark> copied;
  };
  void take_back(std::size_t left);

  at::Device device_;
  std::unique_ptr<Streams> streams_;  // null for the CPU
  UnitTrace* trace_ = nullptr;
  std::deque<Sent> sent_;  // oldest first
};

}  // namespace shoal::fsdp
