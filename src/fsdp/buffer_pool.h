// Memory for what is there only for a while: unsharded parameters, gradients. Buffers are kept and used again, so that
// after the first steps nothing is allocated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace shoal::fsdp {

class BufferPool {
 public:
  // What becomes of memory beyond reserve() that is released: it waits for the next acquire(), or goes back to
  // LibTorch's allocator, which lends it for other tensors in the meantime.
  enum class Spare { kept, given_back };

  // `pinned`: host memory that a GPU copies from and to by itself.
  explicit BufferPool(at::Device device, bool pinned = false, Spare spare = Spare::kept)
      : device_(device), pinned_(pinned), spare_(spare) {}

  // One piece of bytes on the pool's device, of which acquire() lends parts before it makes buffers.
  void reserve(at::Tensor memory);
  // The part of it that acquire() lends `owner`, from byte `place` on, unless somebody else has some of it.
  void set_place(const void* owner, std::int64_t place) { places_[owner] = place; }

  // A 1-D tensor of exactly `numel` elements with undefined content, which goes back by release(): the owner's place;
  // else the first part of the reserved memory that is free; else, of the free buffers made before, the smallest that
  // is large enough; else a new one. Ranks which acquire and release alike get the same.
  at::Tensor acquire(std::int64_t numel, at::ScalarType dtype, const void* owner = nullptr);
  void release(at::Tensor buffer);

  // Where in the reserved memory `buffer` begins; -1 for memory that acquire() made.
  std::int64_t place(const at::Tensor& buffer) const;
  std::int64_t bytes() const;         // of all memory, lent or free
  int made() const { return made_; }  // buffers, by acquire(), where nothing free was large enough

 private:
  struct Slot {
    at::Tensor memory;
    bool lent = false;
  };
  std::optional<std::int64_t> find_place(std::int64_t bytes, const void* owner) const;
  bool is_free(std::int64_t begin, std::int64_t end) const;
  at::Tensor lend_slot(std::int64_t bytes);

  at::Device device_;
  bool pinned_;
  Spare spare_;
  at::Tensor reserved_;                        // undefined: none
  std::map<std::int64_t, std::int64_t> lent_;  // of it: begin and end
  std::unordered_map<const void*, std::int64_t> places_;
  std::vector<Slot> slots_;  // smallest first, of equal ones in the order in which they came
  int made_ = 0;
};

}  // namespace shoal::fsdp
