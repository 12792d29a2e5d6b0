// What this process is doing, in memory that others can look at: its neighbours on the node, and its own watch. The
// loop says where it is by a few plain stores, without a lock or an allocation; whoever looks needs no help from a
// process that is stopped or stuck.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"

namespace shoal::activity {

enum class Operation : std::uint8_t {
  start,
  rendezvous,
  data,
  forward,
  backward,
  reduce,
  sums,
  optimizer,
  validation,
  save,
  restore,
  output,
  waiting,  // for another rank that works for as long as it takes: never a hang of this one
  finish,
};
inline constexpr std::size_t kOperations = 14;
const char* text_of(Operation operation);  // "checkpoint save"

inline constexpr std::int32_t kNoUnit = -1;
inline constexpr std::int32_t kStays = -1;  // of Slot::leaving

// One process's slot: fixed in layout, all of it valid as zeros but for what begin() sets. Times are nanoseconds of
// CLOCK_MONOTONIC, which the processes of a node share.
struct Slot {
  static constexpr std::size_t kNames = 512, kNameBytes = 64;

  std::atomic<std::int32_t> rank{-1};
  std::atomic<std::int64_t> process{0}, process_start{0};  // see core/process_state.h
  std::atomic<std::uint64_t> process_space{0};             // the name space in which the number means something
  // Written by the thread that works on the step; one at a time.
  std::atomic<std::uint64_t> place{0};  // operation and unit
  std::atomic<std::int64_t> step{0}, micro_step{0};
  std::atomic<std::uint64_t> changes{0};
  // By whoever ends the process: the exit code with which it is about to end, so that its death has been announced.
  std::atomic<std::int32_t> leaving{kStays};
  // By the watch's thread, each time it looks: when that was, and since when it has seen no change. So the loop reads
  // no clock.
  std::atomic<std::int64_t> beat_at{0}, changed_at{0};
  std::atomic<std::uint64_t> changes_at_beat{0};
  std::atomic<std::int32_t> names{0};  // of units, as many as are filled in
  std::array<std::array<char, kNameBytes>, kNames> name{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::int32_t>::is_always_lock_free,
              "the slot is shared by processes");

namespace detail {
extern std::atomic<Slot*> current;  // never null
// Zeros are a start without a unit.
inline std::uint64_t pack(Operation operation, std::int32_t unit) {
  return static_cast<std::uint64_t>(operation) << 32 | static_cast<std::uint32_t>(unit + 1);
}
inline Operation operation_of(std::uint64_t place) { return static_cast<Operation>(place >> 32); }
inline std::int32_t unit_of(std::uint64_t place) { return static_cast<std::int32_t>(place & 0xffffffffU) - 1; }
}  // namespace detail

inline Slot& slot() noexcept { return *detail::current.load(std::memory_order_relaxed); }

// Something moved, though the place is the same: a chunk of a file was written.
inline void progressed() noexcept {
  std::atomic<std::uint64_t>& changes = slot().changes;  // one writer at a time: no locked instruction
  changes.store(changes.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

inline void enter(Operation operation, std::int32_t unit = kNoUnit) noexcept {
  slot().place.store(detail::pack(operation, unit), std::memory_order_relaxed);
  progressed();
}

// The number of the step that begins, as people count: from 1.
inline void begin_step(std::int64_t step) noexcept {
  slot().step.store(step, std::memory_order_relaxed);
  slot().micro_step.store(0, std::memory_order_relaxed);
}
inline void begin_micro_step(std::int64_t micro_step) noexcept {
  slot().micro_step.store(micro_step, std::memory_order_relaxed);
}

// While it lives the operation is another one.
class During {
 public:
  explicit During(Operation operation) noexcept : before_(slot().place.load(std::memory_order_relaxed)) {
    enter(operation);
  }
  ~During() {
    slot().place.store(before_, std::memory_order_relaxed);
    progressed();
  }
  During(const During&) = delete;
  During& operator=(const During&) = delete;

 private:
  std::uint64_t before_;
};

// What units are called in messages. Names beyond the slot's room are left out, and long ones lose their beginning.
void name_units(std::span<const std::string> names) noexcept;

// This process is about to end with that code (128 + the signal for a crash), and has said why; the first call counts.
// What the main thread waits in meanwhile ends by leave_if_asked().
void leave_with(int code) noexcept;

// What a wait of the main thread ends with once somebody else has decided that this process is to end, and told why.
class Leaving final : public Error {
 public:
  using Error::Error;
};
// Throws Leaving where leave_with() was called with another code than that of success.
inline void leave_if_asked() {
  if (const std::int32_t code = slot().leaving.load(std::memory_order_relaxed); code > 0) [[unlikely]]
    throw Leaving(static_cast<ExitCode>(code), "the watch has ended this attempt; its first failure tells why");
}

// Fills in who this process is and makes `shared` its slot from now on, with what the old one said; null: memory of its
// own again. Not while another thread writes. `shared` must outlive its use.
void use_slot(Slot* shared) noexcept;

// What a slot says, at one moment as nearly as can be had without a lock.
struct Reading {
  int rank = -1;
  std::int64_t process = 0;
  Operation operation = Operation::start;
  int unit = kNoUnit;
  std::string unit_name;  // empty: it has none
  std::int64_t step = 0, micro_step = 0;
  std::uint64_t changes = 0;
  double unchanged_seconds = 0;
  int leaving = kStays;
};
Reading read(const Slot& slot);
double seconds_since_beat(const Slot& slot);
void beat() noexcept;  // of this process's slot; on the watch's thread alone

}  // namespace shoal::activity
