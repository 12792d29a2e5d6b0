// What happened when on this rank, in the steps that are recorded: for chrome://tracing and Perfetto (trace_json.h) and
// for the question how much communication stood in the way of computation (trace_summary.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace shoal {

// A moment that is known only when it is past, such as a GPU's coming to an event.
class Moment {
 public:
  virtual ~Moment() = default;
  // Microseconds of the trace's clock. Blocks the host until the moment is past.
  virtual double time() = 0;
};

// Any thread may call any member.
class Trace {
 public:
  // One row of the picture each. Compute and optimizer are what a device's compute stream does.
  enum class Lane { host, compute, all_gather, reduce, all_reduce, copy, optimizer };

  struct Span {
    Lane lane = Lane::host;
    std::string name;
    std::int64_t step = 0;
    double start = 0, end = 0;  // microseconds of this clock
    std::int64_t bytes = 0;     // that were moved; 0: none, or not known
  };

  // Records the steps [first_step, last_step]. The first ones of a run are unlike the others: memory is allocated and
  // the order of units is learnt.
  explicit Trace(std::int64_t first_step = 4, std::int64_t last_step = 23);

  // `step` as the caller counts. The step before ends. `also`: recorded even where it is none of the steps above, until
  // take() asks for it.
  void begin_step(std::int64_t step, bool also = false);
  void end_step();
  // Whether what happens now is recorded. Where it is not, add() does nothing.
  bool recording() const noexcept { return recording_.load(std::memory_order_relaxed); }
  std::int64_t step() const;

  // Microseconds since this object was made, by the host's steady clock.
  double now() const;
  // Something that took from `start` to `end`, both of this clock.
  void add(Lane lane, std::string name, double start, double end, std::int64_t bytes = 0);
  // The same, from and to what has not happened yet.
  void add(Lane lane, std::string name, std::shared_ptr<Moment> start, std::shared_ptr<Moment> end,
           std::int64_t bytes = 0);

  // Something that is heard of only after its step: it belongs to the last step that a device began before it, and is
  // forgotten where it began before the first one recorded.
  void add_late(Lane lane, std::string name, double start, double end, std::int64_t bytes = 0);

  // Everything recorded so far, in the order of starts. Blocks the host until the last of it is past, so it is for the
  // end of a run, not for its loop.
  std::vector<Span> spans();
  // The same of one step alone, and forgotten unless the step is one of those that the constructor was told.
  std::vector<Span> take(std::int64_t step);

 private:
  struct Pending {
    Span span;
    std::shared_ptr<Moment> start, end;
  };
  void end_step_locked();
  bool is_wanted(std::int64_t step) const { return step >= first_step_ && step <= last_step_; }
  void resolve_pending();
  void place_late();

  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();
  const std::int64_t first_step_, last_step_;
  std::atomic<bool> recording_{false};

  mutable std::mutex mutex_;  // of what follows
  std::int64_t step_ = 0;
  double step_start_ = 0;
  std::vector<Span> spans_;
  std::vector<Pending> pending_;
  std::vector<Span> late_;
  std::map<double, std::int64_t> taken_;  // steps that take() forgot, by their first start on the device
};

const char* name_of(Trace::Lane lane);

}  // namespace shoal
