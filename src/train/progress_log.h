// What a run tells: lines of progress on standard error, results on standard output. Rank 0 alone speaks.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "comm/process_group.h"
#include "core/timer.h"
#include "launch/metrics.h"
#include "models/model.h"
#include "train/options.h"
#include "train/rate_facts.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace shoal::train {

class ProgressLog {
 public:
  ProgressLog(const RunOptions& options, const RateFacts& facts, int ranks, std::int64_t total_steps);

  // Whether step() will tell of step `step`, which counts from 1.
  bool tells(std::int64_t step) const { return step % options_.log_every == 0; }
  // `seconds`: of this step. Every --log-every steps a line, with rates since the last one, and the numbers of it.
  // `split`: of a step since then.
  std::optional<launch::StepMetrics> step(const Progress& after, std::int64_t epoch, const StepResult& result,
                                          double seconds, double learning_rate, at::Device device,
                                          const std::optional<launch::StepSplit>& split);
  // `epoch` counts from 0.
  void epoch(const Progress& after, std::int64_t epoch);
  void evaluation(const models::EvalSum& sum, models::Metric metric) const;
  // Collective over `world`: run time, and the peak memory of the ranks.
  void summary(comm::ProcessGroup& world, at::Device device) const;

 private:
  std::string line(const launch::StepMetrics& metrics, std::int64_t epoch) const;

  RunOptions options_;
  RateFacts facts_;
  int ranks_;
  std::int64_t total_steps_;
  Timer run_;
  std::int64_t samples_ = 0, steps_ = 0, epoch_samples_ = 0, epoch_steps_ = 0;
  double seconds_ = 0, epoch_seconds_ = 0;
};

// The options as they came out, in lines of a command line that does the same.
void log_options(const TrainOptions& options);

}  // namespace shoal::train
