// Where the numbers of a run go beside the console: metrics.jsonl, and TensorBoard's files. Rank 0's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/tensorboard.h"
#include "launch/metrics_file.h"
#include "launch/run_directory.h"
#include "train/options.h"

namespace shoal::train {

class MetricsSinks {
 public:
  // IoError where metrics.jsonl cannot be written; later failures are worth a warning.
  MetricsSinks(const launch::RunAttempt& attempt, const TrainOptions& options, int ranks);

  void start(const std::string& device, std::int64_t from_step, std::int64_t total_steps);
  // `attempt` and `time` are filled in here.
  void step(launch::StepMetrics metrics);
  void checkpoint(std::int64_t step, std::int64_t bytes, double seconds);
  void validation(std::int64_t step, double loss, double accuracy);

 private:
  void to_tensorboard(double time, std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

  int attempt_, ranks_;
  std::string model_, strategy_;
  launch::MetricsFile file_;
  std::optional<formats::TensorBoardFile> tensorboard_;
};

}  // namespace shoal::train
