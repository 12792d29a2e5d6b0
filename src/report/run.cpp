#include "report/run.h"

#include <algorithm>

#include "core/check.h"
#include "core/logging.h"
#include "launch/deadline.h"

namespace shoal::report {
namespace fs = std::filesystem;
namespace {

Run load_run(const fs::path& path) {
  Run run;
  run.overview = launch::look_at_run(path, {.now = launch::unix_now()});
  const fs::path metrics = launch::RunDirectory(run.overview.directory).metrics();
  std::error_code ignored;
  SHOAL_CHECK(fs::exists(metrics, ignored), IoError,
              "{} has no metrics.jsonl: its run was refused, has not begun, or was made by an older version of Shoal; "
              "shoal status tells more",
              run.overview.directory.string());
  run.metrics = launch::read_metrics(metrics);
  SHOAL_CHECK(!run.metrics.steps.empty(), IoError,
              "{} tells of no step yet: wait until the run has done --log-every steps; shoal status tells more",
              metrics.string());
  if (run.metrics.unreadable > 0)
    log::warning("{}: {} lines cannot be read and are left out", metrics.string(), run.metrics.unreadable);
  return run;
}

// "gpt2" of "checkpoints/gpt2/run".
std::string short_name(const fs::path& directory) {
  fs::path path = fs::absolute(directory).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.filename() == "run" && !path.parent_path().filename().empty()) path = path.parent_path();
  return path.filename().string();
}

}  // namespace

std::vector<Run> load_runs(const std::vector<fs::path>& paths) {
  std::vector<Run> runs;
  for (const fs::path& path : paths) runs.push_back(load_run(path));
  for (Run& run : runs) {
    const std::string name = short_name(run.overview.directory);
    const auto same = std::count_if(runs.begin(), runs.end(),
                                    [&](const Run& other) { return short_name(other.overview.directory) == name; });
    run.name = same == 1 ? name : run.overview.directory.string();
  }
  return runs;
}

}  // namespace shoal::report
