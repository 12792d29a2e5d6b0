// Memory for what is there only for a while: unsharded parameters, gradients. Buffers are kept and used again, so that
// after the first steps nothing is allocated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace shoal::fsdp {

class BufferPool {
 public:
  // `pinned`: host memory that a GPU copies from and to by itself.
  explicit BufferPool(at::Device device, bool pinned = false) : device_(device), pinned_(pinned) {}

  // A 1-D tensor of exactly `numel` elements with undefined content. It goes back by release().
  at::Tensor acquire(std::int64_t numel, at::ScalarType dtype);
  void release(at::Tensor buffer);

  std::int64_t bytes() const { return bytes_; }  // of all buffers, lent or free

 private:
  at::Device device_;
  bool pinned_;
  std::vector<at::Tensor> free_;  // of bytes, smallest first
  std::int64_t bytes_ = 0;
};

}  // namespace shoal::fsdp
