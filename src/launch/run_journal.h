// Rank 0's notes in the run directory: the record of its attempt, and how far the run is.
#pragma once

#include <cstdint>
#include <string>

#include "launch/deadline.h"
#include "launch/run_directory.h"
#include "launch/run_records.h"

namespace shoal::launch {

struct StepNote {
  std::int64_t step = 0, epoch = 0;  // done
  double loss = 0;
  std::int64_t samples = 0;
  double seconds = 0;
};

// Writing the record is a condition of starting (IoError); all later notes are worth a warning at most, since training
// goes on without them. Not thread-safe.
class RunJournal {
 public:
  // `record`: all that is known at the start.
  RunJournal(RunAttempt attempt, AttemptRecord record, UnixClock clock = unix_now);

  const RunAttempt& attempt() const { return attempt_; }
  const AttemptRecord& record() const { return record_; }

  void going_on_from(std::int64_t step, std::int64_t total_steps);
  void set_deadline(double end) { status_.deadline = end; }
  // Of the status: "training", "saving", "validating". Written with the next note.
  void set_phase(const std::string& phase) { status_.phase = phase; }
  // The status is written once a second at most.
  void stepped(const StepNote& note);
  void saved(const std::filesystem::path& checkpoint, std::int64_t step, double seconds);
  void checkpoints_take(double seconds) { record_.checkpoint_seconds = seconds; }
  // Before the job is put back into the queue, since Slurm then ends this process; false once that has failed.
  void set_requeued(bool requeued);
  // The first call counts: what comes after the end of the run does not change how it ended.
  void ended(int exit_code, const std::string& reason);

 private:
  void write_record(bool must);
  void write_status();

  RunAttempt attempt_;
  AttemptRecord record_;
  UnixClock clock_;
  RunStatus status_;
  double status_written_ = 0, seconds_ = 0;  // seconds_, samples_, steps_: since then
  std::int64_t samples_ = 0, steps_ = 0;
  bool warned_ = false;
};

// STOP and SAVE, looked for once a second at most.
class RequestFiles {
 public:
  explicit RequestFiles(RunDirectory directory, UnixClock clock = unix_now)
      : directory_(std::move(directory)), clock_(std::move(clock)) {}

  void look();
  bool stop() const { return stop_; }
  bool save() const { return save_; }
  // The request is fulfilled: its file goes. Where that cannot be, with a warning, it counts no longer.
  void saved();

 private:
  RunDirectory directory_;
  UnixClock clock_;
  double looked_ = 0;
  bool stop_ = false, save_ = false, save_stays_ = false;
};

}  // namespace shoal::launch
