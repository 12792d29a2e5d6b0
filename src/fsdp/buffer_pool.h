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

  // Bytes on the pool's device, the whole of their storage, that acquire() lends before it makes new ones.
  void add(at::Tensor memory);

  // A 1-D tensor of exactly `numel` elements with undefined content: of the free buffers the smallest that is large
  // enough, of equal ones the first, so that ranks which acquire and release alike get the same. It goes back by
  // release().
  at::Tensor acquire(std::int64_t numel, at::ScalarType dtype);
  void release(at::Tensor buffer);

  // Which of the memory given to add() `buffer` has, counted from 0; -1 for memory that acquire() made.
  int place(const at::Tensor& buffer) const;
  std::int64_t bytes() const;         // of all buffers, lent or free
  int made() const { return made_; }  // by acquire(), where nothing free was large enough

 private:
  struct Slot {
    at::Tensor memory;
    int place;
    bool lent = false;
  };
  std::size_t insert(Slot slot);
  const Slot& slot_of(const at::Tensor& buffer) const;

  at::Device device_;
  bool pinned_;
  std::vector<Slot> slots_;  // smallest first, of equal ones in the order in which they came
  int added_ = 0, made_ = 0;
};

}  // namespace shoal::fsdp
