#include "fsdp/buffer_pool.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

std::size_t BufferPool::insert(Slot slot) {
  const auto place = std::upper_bound(slots_.begin(), slots_.end(), slot.memory.numel(),
                                      [](std::int64_t bytes, const Slot& s) { return bytes < s.memory.numel(); });
  const auto there = slots_.insert(place, std::move(slot));  // which may move all of them
  return static_cast<std::size_t>(there - slots_.begin());
}

void BufferPool::add(at::Tensor memory) { insert({std::move(memory), added_++}); }

at::Tensor BufferPool::acquire(std::int64_t numel, at::ScalarType dtype) {
  const std::int64_t bytes = numel * static_cast<std::int64_t>(c10::elementSize(dtype));
  const auto fits = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& slot) { return !slot.lent && slot.memory.numel() >= bytes; });
  auto index = static_cast<std::size_t>(fits - slots_.begin());
  if (fits == slots_.end()) {
    ++made_;
    index = insert({at::empty({bytes}, at::TensorOptions(device_).dtype(at::kByte).pinned_memory(pinned_)), -1});
  }
  slots_[index].lent = true;
  return slots_[index].memory.narrow(0, 0, bytes).view(dtype);
}

const BufferPool::Slot& BufferPool::slot_of(const at::Tensor& buffer) const {
  const void* const storage = torch_internals::storage_identity(buffer);
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& s) { return torch_internals::storage_identity(s.memory) == storage; });
  SHOAL_CHECK(slot != slots_.end(), InternalError, "a buffer is not one of its pool");
  return *slot;
}

void BufferPool::release(at::Tensor buffer) {
  const auto index = static_cast<std::size_t>(&slot_of(buffer) - slots_.data());
  SHOAL_ASSERT(slots_[index].lent);
  slots_[index].lent = false;
}

int BufferPool::place(const at::Tensor& buffer) const { return slot_of(buffer).place; }

std::int64_t BufferPool::bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.memory.numel();
  return bytes;
}

}  // namespace shoal::fsdp
