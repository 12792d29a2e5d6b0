#include "core/activity.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <mutex>

#include "core/process_state.h"

namespace shoal::activity {
namespace {

Slot g_private_slot;

std::int64_t now_in_nanoseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

double seconds_since(std::int64_t then) {
  return static_cast<double>(std::max<std::int64_t>(now_in_nanoseconds() - then, 0)) / 1e9;
}

void copy_name(const std::string& name, std::array<char, Slot::kNameBytes>& to) noexcept {
  const std::size_t size = std::min(name.size(), to.size() - 1);
  std::copy_n(name.end() - static_cast<std::ptrdiff_t>(size), size, to.begin());
  to[size] = '\0';
}

}  // namespace

namespace detail {
std::atomic<Slot*> current{&g_private_slot};
}  // namespace detail

const char* text_of(Operation operation) {
  constexpr std::array<const char*, kOperations> kTexts{
      "start-up",  "the rendezvous", "reading data",       "forward",    "backward",
      "gradients", "sums of a step", "the optimizer step", "validation", "checkpoint save",
      "restoring", "writing output", "waiting for output", "ending"};
  const auto index = static_cast<std::size_t>(operation);
  return index < kTexts.size() ? kTexts[index] : "?";
}

void name_units(std::span<const std::string> names) noexcept {
  static std::mutex one_at_a_time;  // tests have several ranks in one process
  const std::lock_guard lock(one_at_a_time);
  Slot& mine = slot();
  const std::size_t count = std::min(names.size(), Slot::kNames);
  mine.names.store(0, std::memory_order_release);
  for (std::size_t i = 0; i < count; ++i) copy_name(names[i], mine.name[i]);
  mine.names.store(static_cast<std::int32_t>(count), std::memory_order_release);
}

void leave_with(int code) noexcept {
  std::int32_t stays = kStays;
  slot().leaving.compare_exchange_strong(stays, code);
}

void use_slot(Slot* shared) noexcept {
  Slot& next = shared ? *shared : g_private_slot;
  Slot& last = slot();
  if (&next == &last) return;
  const ProcessIdentity self = own_identity();
  next.rank = last.rank.load();
  next.process = self.number;
  next.process_start = self.start;
  next.process_space = self.space;
  next.place = last.place.load();
  next.step = last.step.load();
  next.micro_step = last.micro_step.load();
  next.leaving = last.leaving.load();
  next.beat_at = next.changed_at = now_in_nanoseconds();
  next.name = last.name;
  next.names = last.names.load();
  next.changes = last.changes.load() + 1;
  detail::current.store(&next, std::memory_order_release);
}

Reading read(const Slot& slot) {
  Reading seen;
  seen.changes = slot.changes.load(std::memory_order_acquire);
  const std::uint64_t place = slot.place.load(std::memory_order_relaxed);
  seen.operation = detail::operation_of(place);
  seen.unit = detail::unit_of(place);
  seen.rank = slot.rank;
  seen.process = slot.process;
  seen.step = slot.step;
  seen.micro_step = slot.micro_step;
  seen.unchanged_seconds = seconds_since(slot.changed_at);
  seen.leaving = slot.leaving;
  if (seen.unit >= 0 && seen.unit < slot.names.load(std::memory_order_acquire)) {
    const auto& name = slot.name[static_cast<std::size_t>(seen.unit)];
    seen.unit_name.assign(name.data(), strnlen(name.data(), name.size()));
  }
  return seen;
}

double seconds_since_beat(const Slot& slot) { return seconds_since(slot.beat_at); }

void beat() noexcept {
  Slot& mine = slot();
  const std::uint64_t changes = mine.changes.load(std::memory_order_acquire);
  const std::int64_t now = now_in_nanoseconds();
  if (mine.changes_at_beat.exchange(changes, std::memory_order_relaxed) != changes)
    mine.changed_at.store(now, std::memory_order_relaxed);
  mine.beat_at.store(now, std::memory_order_relaxed);
}

}  // namespace shoal::activity
