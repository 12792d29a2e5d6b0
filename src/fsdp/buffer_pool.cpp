#include "fsdp/buffer_pool.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "fsdp/buffer_plan.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

void BufferPool::reserve(at::Tensor memory) {
  SHOAL_ASSERT(!reserved_.defined());
  reserved_ = std::move(memory);
}

bool BufferPool::is_free(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end > reserved_.numel()) return false;
  const auto after = lent_.lower_bound(begin);
  if (after != lent_.end() && after->first < end) return false;
  return after == lent_.begin() || std::prev(after)->second <= begin;
}

std::optional<std::int64_t> BufferPool::find_place(std::int64_t bytes, const void* owner) const {
  if (!reserved_.defined() || bytes == 0) return {};
  const auto own = places_.find(owner);
  if (own != places_.end() && is_free(own->second, own->second + bytes)) return own->second;
  std::int64_t begin = 0;
  for (const auto& [lent_begin, lent_end] : lent_) {
    if (lent_begin - begin >= bytes) break;
    begin = aligned(lent_end);
  }
  return is_free(begin, begin + bytes) ? std::optional(begin) : std::nullopt;
}

at::Tensor BufferPool::lend_slot(std::int64_t bytes) {
  auto slot =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return !s.lent && s.memory.numel() >= bytes; });
  if (slot == slots_.end()) {
    ++made_;
    slot = std::upper_bound(slots_.begin(), slots_.end(), bytes,
                            [](std::int64_t wanted, const Slot& s) { return wanted < s.memory.numel(); });
    const auto options = at::TensorOptions(device_).dtype(at::kByte).pinned_memory(pinned_);
    slot = slots_.insert(slot, {at::empty({bytes}, options)});
  }
  slot->lent = true;
  return slot->memory.narrow(0, 0, bytes);
}

at::Tensor BufferPool::acquire(std::int64_t numel, at::ScalarType dtype, const void* owner) {
  const std::int64_t bytes = numel * static_cast<std::int64_t>(c10::elementSize(dtype));
  const std::optional<std::int64_t> place = find_place(bytes, owner);
  if (!place) return lend_slot(bytes).view(dtype);
  lent_[*place] = *place + bytes;
  return reserved_.narrow(0, *place, bytes).view(dtype);
}

void BufferPool::release(at::Tensor buffer) {
  if (const std::int64_t begin = place(buffer); begin >= 0) {
    const std::size_t lent = lent_.erase(begin);
    SHOAL_ASSERT(lent == 1);
    return;
  }
  const void* const storage = torch_internals::storage_identity(buffer);
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& s) { return torch_internals::storage_identity(s.memory) == storage; });
  SHOAL_CHECK(slot != slots_.end(), InternalError, "a buffer is not one of its pool");
  SHOAL_ASSERT(slot->lent);
  slot->lent = false;
  if (spare_ == Spare::given_back) slots_.erase(slot);
}

std::int64_t BufferPool::place(const at::Tensor& buffer) const {
  if (!reserved_.defined() || torch_internals::storage_identity(buffer) != torch_internals::storage_identity(reserved_))
    return -1;
  return static_cast<const std::byte*>(buffer.const_data_ptr()) -
         static_cast<const std::byte*>(reserved_.const_data_ptr());
}

std::int64_t BufferPool::bytes() const {
  std::int64_t bytes = reserved_.defined() ? reserved_.numel() : 0;
  for (const Slot& slot : slots_) bytes += slot.memory.numel();
  return bytes;
}

}  // namespace shoal::fsdp
