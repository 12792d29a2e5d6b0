// What an attempt to train is besides training: its number and its notes in the run directory, what may end it, and
// whether the job is started again. docs/running.md tells users of it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/fence.h"
#include "comm/process_group.h"
#include "core/exit_code.h"
#include "launch/deadline.h"
#include "launch/requeue.h"
#include "launch/run_journal.h"
#include "launch/stop_signal.h"
#include "train/metrics_sinks.h"
#include "train/options.h"
#include "train/trainer.h"

namespace shoal::train {

// What Slurm says of the job.
struct JobFacts {
  launch::SlurmJob job;                        // without an address outside of Slurm
  std::optional<std::int64_t> slurm_end_time;  // UNIX time
};

class JobRun {
 public:
  // `world` and `stop` outlive this. `run` is how scontrol and squeue are called.
  JobRun(comm::ProcessGroup& world, const TrainOptions& options, JobFacts facts, const launch::StopSignal& stop,
         launch::CommandRunner run = launch::run_command);

  // All of these are collective over the world, and their errors are AgreedErrors.

  // An exit code where there is nothing to do: the run is done, or the user's STOP is there. Writes nothing.
  std::optional<ExitCode> ends_at_once();
  // Takes the attempt's number and opens its notes and every rank's log file.
  void begin();
  // To be called when the step is known from which the run goes on. Where too many attempts have begun there already,
  // the error has the exit code for no progress.
  // `device`: its name, for the records.
  void going_on_from(std::int64_t step, std::int64_t total_steps, const std::string& device = "cpu");
  // What ends the loop early, and what is noted of it. `checkpoint_bytes`: for a guess of how long a checkpoint takes,
  // until one was measured. The hooks hold on to this object.
  TrainerHooks hooks(std::int64_t checkpoint_bytes);

  // The run has come to its end, all its files are written.
  void finished(const Progress& progress);
  // Stopped and saved: puts the job back into Slurm's queue where it is to be. Slurm then ends this process soon.
  ExitCode stopped(const Asks& by);

  // Not collective, for any rank; the first end that is noted counts. Rank 0 writes it down.
  void ended(ExitCode code, const std::string& reason) noexcept;

  // Rank 0's, where checkpoints are written; empty before begin().
  const std::optional<checkpoint::Fence>& fence() const { return fence_; }
  // Empty before begin(), and where there is no run directory.
  const std::optional<launch::RunAttempt>& attempt() const { return attempt_; }

 private:
  bool is_root() const { return world_.rank() == 0; }
  bool has_directory() const;
  int take_number();
  void open_notes(int number);
  void find_deadline(std::int64_t checkpoint_bytes);
  Asks asks(launch::Ahead ahead);
  bool looks_superseded();
  void put_back_into_queue();

  comm::ProcessGroup& world_;
  const TrainOptions& options_;
  JobFacts facts_;
  const launch::StopSignal& stop_;
  launch::CommandRunner run_;
  launch::RunDirectory directory_;
  launch::RequeuePolicy requeue_;
  std::optional<launch::RunAttempt> attempt_;
  int signal_checks_ = 0;
  bool signal_told_ = false;
  // Rank 0's.
  std::optional<checkpoint::Fence> fence_;
  std::optional<launch::RunJournal> journal_;
  std::optional<MetricsSinks> metrics_;
  std::optional<launch::RequestFiles> requests_;
  std::optional<launch::Deadline> deadline_;
  double fence_checked_ = 0;
};

}  // namespace shoal::train
