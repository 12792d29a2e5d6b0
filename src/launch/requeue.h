// Starting a job again, and not for ever.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/child_process.h"
#include "launch/run_records.h"

namespace shoal::launch {

// When a job that has stopped and is saved puts itself back into Slurm's queue.
struct RequeuePolicy {
  bool on_signal = false, on_deadline = false;
  // "never", "on-signal", "on-deadline" or both with a comma between them. OptionError that names --requeue.
  static RequeuePolicy parse(const std::string& text);
  bool any() const { return on_signal || on_deadline; }
};

// A job of Slurm, as it must be told in commands: "123", or "100_7" for one task of an array (123 may be the array's
// own number, and would requeue all of it).
struct SlurmJob {
  std::string address;  // empty: this is none
  std::string chain;    // what its restarts and, for a task of an array, the other tasks have in common
  int restart_count = 0;
  bool heterogeneous = false;
};

// How often this job was put back by us.
int requeues_of(const std::vector<AttemptRecord>& records, const std::string& job);

// The attempts of `chain` in a row, up to the newest before `attempt`, after which the run was no further than `step`,
// from which the next one would start: they were killed, or failed, before they had saved anything new.
int attempts_without_progress(const std::vector<AttemptRecord>& records, const std::string& chain, int attempt,
                              std::int64_t step);

// NoProgressError where that is `most` or more; `most` 0: never.
void check_progress(const std::vector<AttemptRecord>& records, const std::string& chain, int attempt, std::int64_t step,
                    int most);

// scontrol requeue, for 30 seconds at most; IoError that says what it said. For rank 0 alone. Slurm ends the job within
// moments of this: everything must have been written.
//
// Slurm would also put a job back that is being cancelled, and whose ranks have heard of it by the same SIGTERM by
// which they hear of preemption. So squeue is asked first: false, and nothing done, where the job does not run any
// longer; `state` is then what squeue calls it.
bool requeue(const SlurmJob& job, const CommandRunner& run, std::string& state);

}  // namespace shoal::launch
