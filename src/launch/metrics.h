// The numbers of a run as it went, as values: the lines of metrics.jsonl. Times are UNIX times in seconds by the clock
// of rank 0's host; docs/metrics.md tells what each number is and how it is measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace shoal::launch {

inline constexpr int kMetricsVersion = 1;

// The first line of an attempt.
struct MetricsStart {
  int attempt = 0;
  double time = 0;
  std::string model, strategy, device;  // device: "cpu", or the name of rank 0's GPU
  int ranks = 0;
  std::int64_t from_step = 0, total_steps = 0;
};

// Milliseconds of one step of rank 0; the parts add up to `step_ms`.
struct StepSplit {
  std::int64_t step = 0;
  double step_ms = 0;
  double compute = 0, exposed = 0, optimizer = 0, data = 0, host = 0;
};

struct StepMetrics {
  int attempt = 0;
  double time = 0;
  std::int64_t step = 0, epoch = 0;  // done; the epoch counts from 0
  double loss = 0, learning_rate = 0;
  std::optional<double> grad_norm;  // before clipping
  int ranks = 0;
  double samples_per_second = 0;            // of all ranks
  std::optional<double> tokens_per_second;  // of models that take sequences
  std::optional<double> mfu;                // 0 … 1
  double step_ms = 0;                       // mean of the steps since the line before
  std::optional<StepSplit> split;
  std::optional<std::int64_t> allocated, reserved;  // bytes of rank 0
  std::int64_t peak = 0;
  std::optional<double> seconds_left;
};

struct CheckpointMetrics {
  int attempt = 0;
  double time = 0;
  std::int64_t step = 0, bytes = 0;
  double seconds = 0;  // from the start of the save to its commit
};

struct ValidationMetrics {
  int attempt = 0;
  double time = 0;
  std::int64_t step = 0;
  double loss = 0, accuracy = 0;  // accuracy: 0 … 1
};

using MetricsLine = std::variant<MetricsStart, StepMetrics, CheckpointMetrics, ValidationMetrics>;

// One line without its end. Numbers that are not finite become null.
std::string format(const MetricsLine& line);
// Nothing for lines of a kind that this version does not know, or that are no line of metrics at all. IoError that
// names `where` for a start of a newer version.
std::optional<MetricsLine> parse_metrics(const std::string& line, const std::string& where);

}  // namespace shoal::launch
