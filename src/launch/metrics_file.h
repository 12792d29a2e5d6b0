// metrics.jsonl of a run directory: one JSON object a line, appended to by every attempt (metrics.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/file_io.h"
#include "launch/metrics.h"

namespace shoal::launch {

// For one thread and one process at a time. What cannot be written is worth one warning: training goes on without.
class MetricsFile {
 public:
  // Made where it is not there. A last line that an earlier process did not finish is ended, so that it spoils no
  // other.
  explicit MetricsFile(const std::filesystem::path& path);
  // In one call, so that whoever reads finds whole lines, but for the last of a process that was killed.
  void append(const MetricsLine& line) noexcept;

 private:
  void write(const std::string& text);

  std::filesystem::path path_;
  Descriptor descriptor_;
  bool failed_ = false;
};

struct MetricsHistory {
  std::vector<MetricsStart> starts;            // as written
  std::vector<StepMetrics> steps;              // ascending; of a step that several attempts did, the last one's
  std::vector<CheckpointMetrics> checkpoints;  // the same
  std::vector<ValidationMetrics> validations;  // the same
  std::size_t unreadable = 0;                  // lines, beside one at the end that is not finished
};

// IoError where the file cannot be read, or is of a newer version.
MetricsHistory read_metrics(const std::filesystem::path& path);

}  // namespace shoal::launch
