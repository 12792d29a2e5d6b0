// Copies between a device and the host beside the device's computation.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include <c10/core/Stream.h>

namespace c10 {
struct Event;
}

namespace shoal::fsdp {

// The end of some copies, for the streams that work with what they brought or took.
class CopyMark {
 public:
  CopyMark() = default;  // of copies that are over
  // Records the end of what is queued on `copies` by now.
  CopyMark(const c10::Stream& copies, const c10::Stream& current);
  ~CopyMark();

  // What this thread queues on the device's current stream from now on runs after the copies. Blocks no host.
  void wait();
  // The same for the stream that was current when this was made.
  void wait_where_made();

 private:
  std::unique_ptr<c10::Event> event_;  // null: over
  std::optional<c10::Stream> made_on_, waiting_;
};

// For one thread at a time. On a CPU, copies are over when they are called.
class CopyStream {
 public:
  explicit CopyStream(at::Device device);

  // Starts after what is queued on this thread's current stream, and after the copies before it. Both tensors must stay
  // until then; the one on the host is pinned where the device is a GPU.
  void copy(const at::Tensor& to, const at::Tensor& from);
  std::shared_ptr<CopyMark> mark() const;

 private:
  at::Device device_;
  std::optional<c10::Stream> stream_;  // none on a CPU
};

}  // namespace shoal::fsdp
