// What a run tells: lines of progress on standard error, results on standard output. Rank 0 alone speaks.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "comm/process_group.h"
#include "core/timer.h"
#include "models/model.h"
#include "train/options.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace shoal::train {

class ProgressLog {
 public:
  explicit ProgressLog(const RunOptions& options) : options_(options) {}

  // `seconds`: of this step. A line every --log-every steps, with the rate since the last one.
  void step(const Progress& after, std::int64_t epoch, const StepResult& result, double seconds);
  // `epoch` counts from 0.
  void epoch(const Progress& after, std::int64_t epoch);
  void evaluation(const models::EvalSum& sum, models::Metric metric) const;
  // Collective over `world`: run time, and the peak memory of the ranks.
  void summary(comm::ProcessGroup& world, at::Device device) const;

 private:
  RunOptions options_;
  Timer run_;
  std::int64_t samples_ = 0, epoch_samples_ = 0, epoch_steps_ = 0;
  double seconds_ = 0, epoch_seconds_ = 0;
};

// The options as they came out, in lines of a command line that does the same.
void log_options(const TrainOptions& options);

}  // namespace shoal::train
