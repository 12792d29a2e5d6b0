// Memory for what is whole only for a while: unsharded parameters and gradients. Buffers are kept and used again, so
// that after the first steps nothing is allocated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace shoal::fsdp {

class BufferPool {
 public:
  explicit BufferPool(at::Device device) : device_(device) {}

  // A 1-D tensor of exactly `numel` elements with undefined content. It goes back by release().
  at::Tensor acquire(std::int64_t numel, at::ScalarType dtype);
  void release(at::Tensor buffer);

  std::int64_t bytes() const { return bytes_; }  // of all buffers, lent or free

 private:
  at::Device device_;
  std::vector<at::Tensor> free_;  // of bytes, smallest first
  std::int64_t bytes_ = 0;
};

}  // namespace shoal::fsdp
