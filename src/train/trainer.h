// The training loop: step, log, validate, save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpointer.h"
#include "optim/schedule.h"
#include "train/batch_feed.h"
#include "train/cadence.h"
#include "train/parts.h"
#include "train/progress_log.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace shoal::train {

enum class Outcome { finished, stopped };

class Trainer {
 public:
  // `checkpointer`: null where nothing is to be saved. `stop_signal` tells whether this rank was asked to stop (0: no,
  // else the number of the signal).
  Trainer(const TrainParts& parts, const TrainOptions& options, const BatchPlan& plan,
          checkpoint::Checkpointer* checkpointer, std::function<int()> stop_signal);

  // All are collective over the world.

  // As --resume says. Errors of the checkpoint are AgreedErrors.
  void restore();
  // To the last step, or to the first at which some rank was asked to stop. Both end with a checkpoint.
  Outcome run();
  // Prints run time and peak memory.
  void summarize() const { log_.summary(parts_.world, parts_.device); }

  const Progress& progress() const { return progress_; }
  // The newest checkpoint of this run; empty: there is none.
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }

 private:
  bool finished() const;
  bool epoch_ended() const { return progress_.step > 0 && progress_.position.consumed == 0; }
  StepResult step();
  void end_epoch(std::int64_t epoch);
  void validate();
  void validate_after_epoch();
  double learning_rate(std::int64_t epoch) const;
  void save();
  StateDict state();
  void check_before_restore();
  void adopt(const checkpoint::Restored& restored);

  TrainParts parts_;
  TrainOptions options_;
  BatchPlan plan_;
  checkpoint::Checkpointer* checkpointer_;
  std::function<int()> stop_signal_;
  optim::Schedule schedule_;
  Cadence cadence_;
  data::Sampler sampler_;
  std::int64_t total_steps_;
  DataIdentity data_;
  StepRunner runner_;
  std::optional<BatchFeed> feed_;  // from where the run starts
  ProgressLog log_;
  Progress progress_;
  std::int64_t saved_step_ = -1;
  std::filesystem::path last_checkpoint_;
};

}  // namespace shoal::train
