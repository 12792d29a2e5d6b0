#include "fsdp/buffer_pool.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace shoal::fsdp {

at::Tensor BufferPool::acquire(std::int64_t numel, at::ScalarType dtype) {
  const std::int64_t bytes = numel * static_cast<std::int64_t>(c10::elementSize(dtype));
  const auto fits = std::find_if(free_.begin(), free_.end(), [&](const at::Tensor& b) { return b.numel() >= bytes; });
  at::Tensor buffer;
  if (fits != free_.end()) {
    buffer = std::move(*fits);
    free_.erase(fits);
  } else {
    buffer = at::empty({bytes}, at::TensorOptions(device_).dtype(at::kByte).pinned_memory(pinned_));
    bytes_ += bytes;
  }
  // The view starts at the buffer's first byte, so its storage tells release() how large the buffer is.
  return buffer.narrow(0, 0, bytes).view(dtype);
}

void BufferPool::release(at::Tensor buffer) {
  const auto bytes = static_cast<std::int64_t>(buffer.storage().nbytes());
  at::Tensor whole = at::empty({0}, at::TensorOptions(device_).dtype(at::kByte));
  whole.set_(buffer.storage(), 0, {bytes}, {1});
  const auto place = std::find_if(free_.begin(), free_.end(), [&](const at::Tensor& b) { return b.numel() >= bytes; });
  free_.insert(place, std::move(whole));
}

}  // namespace shoal::fsdp
