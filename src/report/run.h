// What a report tells of one run: all that its run directory has.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/metrics_file.h"
#include "launch/run_overview.h"

namespace shoal::report {

struct Run {
  std::string name;  // short, and another for each run of a report
  launch::RunOverview overview;
  launch::MetricsHistory metrics;  // with one step at least
};

// `paths`: run directories, or checkpoint directories with one in `run`. IoError where one is neither, was written by a
// newer version, or has no numbers to show yet.
std::vector<Run> load_runs(const std::vector<std::filesystem::path>& paths);

}  // namespace shoal::report
