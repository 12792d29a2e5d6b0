// The training loop: step, log, validate, save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpointer.h"
#include "launch/deadline.h"
#include "optim/schedule.h"
#include "train/batch_feed.h"
#include "train/cadence.h"
#include "train/parts.h"
#include "train/progress_log.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace shoal::train {

enum class Outcome { finished, stopped };

// How the loop hears from and speaks to what is around it. Each may be empty; all are called on every rank.
struct TrainerHooks {
  // What this rank was asked. Called once a step, before the ranks agree.
  std::function<Asks(launch::Ahead)> asks;
  std::function<void(const Progress&, const StepResult&, double seconds)> stepped;
  std::function<void(const checkpoint::SaveReport&, std::int64_t step, double seconds)> saved;
  // The numbers of a step with a line of progress; `attempt`, `time` and `ranks` are the hook's to fill in.
  std::function<void(const launch::StepMetrics&)> measured;
  std::function<void(const Progress&)> validated;
};

class Trainer {
 public:
  // `checkpointer`: null where nothing is to be saved.
  Trainer(const TrainParts& parts, const TrainOptions& options, const BatchPlan& plan,
          checkpoint::Checkpointer* checkpointer, TrainerHooks hooks = {});

  // All are collective over the world.

  // As --resume says; from here on older attempts on the checkpoints are superseded. Errors of the checkpoint are
  // AgreedErrors.
  void restore();
  // To the last step, or to the first at which some rank was asked to stop. Both end with a checkpoint. An AgreedError
  // with the exit code for it where a newer attempt has taken the checkpoints over.
  Outcome run();
  // Prints run time and peak memory.
  void summarize() const { log_.summary(parts_.world, parts_.device); }

  const Progress& progress() const { return progress_; }
  // Why run() came back with `stopped`.
  const Asks& stopped_by() const { return stopped_by_; }
  std::int64_t last_step() const { return total_steps_; }  // of the whole run
  // The newest checkpoint of this run; empty: there is none.
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }

 private:
  bool finished() const;
  bool epoch_ended() const { return progress_.step > 0 && progress_.position.consumed == 0; }
  StepResult step();
  void tell(const StepResult& result, std::int64_t epoch, double seconds, double learning_rate);
  std::optional<launch::StepSplit> take_split();
  launch::Ahead ahead() const;
  void end_epoch(std::int64_t epoch);
  void validate();
  void validate_after_epoch();
  double learning_rate(std::int64_t epoch) const;
  // Of what is there now. With --async-save it is on its way when this returns, unless `complete` asks for its end.
  void save(bool complete);
  void noting_what_was_committed(const std::function<void()>& save);
  void continue_save(const Asks& asked);
  void finish_save();
  void await_copies();
  void saved(const checkpoint::SaveReport& report);
  StateDict state(fsdp::StateMemory memory);
  void check_before_restore();
  void adopt(const checkpoint::Restored& restored);

  TrainParts parts_;
  TrainOptions options_;
  BatchPlan plan_;
  checkpoint::Checkpointer* checkpointer_;
  TrainerHooks hooks_;
  optim::Schedule schedule_;
  Cadence cadence_;
  data::Sampler sampler_;
  std::int64_t total_steps_;
  DataIdentity data_;
  StepRunner runner_;
  std::optional<BatchFeed> feed_;  // from where the run starts
  ProgressLog log_;
  Progress progress_;
  Asks stopped_by_;
  std::optional<launch::StepSplit> recorded_;  // the last step that was recorded; its parts but for data are to come
  double validation_seconds_ = 0;              // of the last one
  std::int64_t saved_step_ = -1;               // of the last save that was started
  std::filesystem::path last_checkpoint_;
};

}  // namespace shoal::train
