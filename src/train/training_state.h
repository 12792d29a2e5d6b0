// Where a run stands and what it is, as stored in its checkpoints in JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/sampler.h"
#include "train/loss_scaler.h"
#include "train/options.h"

namespace shoal::train {

struct Progress {
  std::int64_t step = 0;             // done
  std::int64_t optimizer_steps = 0;  // of these; fewer where fp16 gradients overflowed
  std::int64_t tokens = 0;           // that all ranks together have trained on; 0 where samples are not of tokens
  std::optional<LossScalerState> loss_scaler;
  data::SamplePosition position;
  // Of the steps of this epoch so far.
  double epoch_loss_sum = 0;
  std::int64_t epoch_count = 0;
  // Of the last validation, which came after `test_step` steps; -1: none yet.
  std::int64_t test_step = -1;
  double test_accuracy = 0, test_loss = 0, best_test_accuracy = 0;
};

struct DataIdentity {
  std::int64_t samples = 0;
  std::uint32_t fingerprint = 0;
  bool operator==(const DataIdentity&) const = default;
};

std::string format_training_state(const TrainOptions& options, const Progress& progress, const DataIdentity& data,
                                  int ranks);

// CheckpointError where `text` is not what format_training_state() writes; `where` stands in front.
Progress parse_progress(const std::string& text, const std::string& where);

// Can a run of `options` use the state that this one wrote? Another model or optimizer is a CheckpointError, another
// seed, or another option that change_rule() refuses, an OptionError.
void check_same_run(const std::string& text, const std::string& where, const TrainOptions& options);

// The state that `shoal ckpt import` writes: what another framework has trained. Its model, seed and data are not
// known, and those of the run are taken for them.
bool is_imported(const std::string& text);

// Where a run without a stop would be after the steps that an imported state tells, at the batch size of this one.
data::SamplePosition position_after(std::int64_t steps, std::int64_t samples, std::int64_t global_batch);

// Once that is so: other data, or another order of it, is an OptionError in the middle of an epoch and a warning at its
// start; other options of which change_rule() wants to warn (lr, schedule, batch, …) are warnings. Warnings come from
// the rank that calls.
void check_continues(const std::string& text, const std::string& where, const TrainOptions& options,
                     const DataIdentity& data);

}  // namespace shoal::train
