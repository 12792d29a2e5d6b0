#include "comm/process_group.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/check.h"

namespace shoal::comm {

std::shared_ptr<void> ProcessGroup::allocate(std::int64_t bytes) {
  constexpr std::align_val_t kAlignment{256};
  return lend({::operator new(static_cast<std::size_t>(bytes), kAlignment),
               [](void* memory) { ::operator delete(memory, kAlignment); }},
              bytes);
}

std::shared_ptr<void> ProcessGroup::lend(std::shared_ptr<void> memory, std::int64_t bytes) {
  std::erase_if(lent_, [](const Lent& lent) { return lent.memory.expired(); });
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.get());
  lent_.push_back({memory, begin, begin + static_cast<std::uintptr_t>(bytes)});
  return memory;
}

void ProcessGroup::refuse_lent(const char* collective, std::int64_t bytes,
                               std::initializer_list<const void*> buffers) const {
  for (const void* buffer : buffers) {
    const auto at = reinterpret_cast<std::uintptr_t>(buffer);
    for (const Lent& lent : lent_)
      SHOAL_CHECK(at < lent.begin || at >= lent.end || lent.memory.expired(), InternalError,
                  "{} of {} bytes a rank at {} bytes into memory that group '{}' gave: there parts start at and hold "
                  "multiples of {} bytes; pad them, or use memory of another kind",
                  collective, bytes, at - lent.begin, name_, kGrain);
  }
}

std::string ProcessGroup::describe() const {
  return fmt::format("{}, {} rank{}", backend(), size(), size() == 1 ? "" : "s");
}

void ProcessGroup::inherit(const ProcessGroup& parent, const GroupOptions& options) {
  set_timeout(parent.timeout());
  set_name(options.name);
  set_observer(parent.observer());
}

std::vector<std::string> all_gather_bytes(ProcessGroup& group, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto me = static_cast<std::size_t>(group.rank());
  std::vector<std::int64_t> sizes(ranks);
  sizes[me] = static_cast<std::int64_t>(mine.size());
  group.all_gather(&sizes[me], sizes.data(), 1, DType::int64)->wait();
  const auto width = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::string all(ranks * width, '\0');
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(me * width));
  group.all_gather(all.data() + me * width, all.data(), static_cast<std::int64_t>(width), DType::uint8)->wait();
  std::vector<std::string> parts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) parts[r] = all.substr(r * width, static_cast<std::size_t>(sizes[r]));
  return parts;
}

std::string broadcast_bytes(ProcessGroup& group, const std::string& mine, int root) {
  auto size = static_cast<std::int64_t>(mine.size());
  group.broadcast(&size, 1, DType::int64, root)->wait();
  std::string bytes = mine;
  bytes.resize(static_cast<std::size_t>(size));
  group.broadcast(bytes.data(), size, DType::uint8, root)->wait();
  return bytes;
}

double all_reduce(ProcessGroup& group, double value, ReduceOp op) {
  group.all_reduce(&value, 1, DType::float64, op)->wait();
  return value;
}

std::int64_t all_reduce(ProcessGroup& group, std::int64_t value, ReduceOp op) {
  group.all_reduce(&value, 1, DType::int64, op)->wait();
  return value;
}

}  // namespace shoal::comm
