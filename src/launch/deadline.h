// When the time limit of a job strikes, and when a run must stop to be saved before it does.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "launch/child_process.h"

namespace shoal::launch {

// UNIX time in seconds, as Slurm gives its times.
using UnixClock = std::function<double()>;
double unix_now();
// When this process was started.
double program_start();

// What is known of the limit. Where `end` is empty, `source` says why.
struct TimeBudget {
  std::optional<double> end;  // UNIX time, seconds
  std::string source;
};

struct TimeBudgetQuestion {
  std::optional<std::int64_t> slurm_end_time;  // SLURM_JOB_END_TIME
  std::string job;                             // as squeue must be told it; empty: no job
  bool heterogeneous = false;                  // each component has a limit of its own
  std::optional<std::int64_t> time_limit;      // of --time-limit, seconds from the program's start
  double started = 0;                          // the program
};

// The earlier of Slurm's limit and that of the option. Slurm's is in the environment (in a heterogeneous job only that
// of one component, and the first one counts, which takes all ranks down), or squeue is asked once, for ten seconds at
// most; that it gives no answer is an info line. For rank 0 alone: Slurm asks not to be called by many.
TimeBudget find_time_budget(const TimeBudgetQuestion& question, double now, const CommandRunner& run);

// The last few durations of something.
class Durations {
 public:
  void add(double seconds);
  bool empty() const { return seconds_.empty(); }
  double p95() const;  // the smallest that at least 95 % do not exceed; 0 where there is none

 private:
  static constexpr std::size_t kMost = 256;
  std::deque<double> seconds_;
};

// What is known to come before the next step.
struct Ahead {
  double seconds = 0;       // of a validation, say
  bool checkpoint = false;  // one is due
};

class Deadline {
 public:
  // `margin`: seconds that stay for what is not measured: the end of MPI, the launcher. `expected_checkpoint` counts
  // until one was measured.
  Deadline(double end, double margin, double expected_checkpoint, UnixClock clock = unix_now)
      : end_(end), margin_(margin), expected_checkpoint_(expected_checkpoint), clock_(std::move(clock)) {}

  void step_took(double seconds) { steps_.add(seconds); }
  void checkpoint_took(double seconds) { checkpoints_.add(seconds); }

  double end() const { return end_; }
  double left() const { return end_ - clock_(); }
  // Seconds that must be left for what comes before the next question, a step and what is `ahead` of it, and for a
  // checkpoint after that.
  double needed(const Ahead& ahead) const;
  bool due(const Ahead& ahead) const { return left() <= needed(ahead); }
  std::optional<double> checkpoint_p95() const;

 private:
  double end_, margin_, expected_checkpoint_;
  UnixClock clock_;
  Durations steps_, checkpoints_;
};

}  // namespace shoal::launch
