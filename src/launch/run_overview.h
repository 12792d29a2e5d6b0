// What the run directory says of a run, put together for somebody who looks from outside.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/run_records.h"

namespace shoal::launch {

struct RunOverview {
  std::filesystem::path directory;
  // A RunState, or "stale": it says that it runs, but nothing was written for long.
  std::string state;
  std::string why;  // of a state that is not plain running or finished; may be empty
  std::optional<RunStatus> status;
  std::vector<AttemptRecord> attempts;  // ascending
  std::vector<FailureRecord> failures;  // the first of each attempt that has one, ascending
  std::optional<double> seconds_left;   // of training, by the rate of late
};

struct OverviewQuestion {
  double now = 0;  // UNIX time
  std::optional<double>
      stale_after;  // seconds without a word; by default two minutes, and ten steps where they are long
};

// `path`: the run directory, or the checkpoint directory with it in `run`. IoError where it is neither, or cannot be
// read. A record that cannot be parsed is left out with a warning.
RunOverview look_at_run(const std::filesystem::path& path, const OverviewQuestion& question);

}  // namespace shoal::launch
