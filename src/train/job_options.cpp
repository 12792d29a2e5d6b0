#include "train/job_options.h"

#include <cmath>

#include "core/check.h"
#include "launch/requeue.h"
#include "launch/slurm_time.h"
#include "train/options.h"

namespace shoal::train {

bool has_run_directory(const TrainOptions& options) { return options.job.run_dir != "none"; }

std::optional<std::int64_t> time_limit_seconds(const JobOptions& options) {
  try {
    const auto seconds = launch::parse_slurm_time(options.time_limit);
    return seconds == 0 ? std::nullopt : seconds;  // as for sbatch, 0 is no limit
  } catch (const OptionError& error) {
    throw OptionError("--time-limit: {}", error.what());
  }
}

void check_job(const JobOptions& options) {
  launch::RequeuePolicy::parse(options.requeue);
  time_limit_seconds(options);
  SHOAL_CHECK(options.max_requeues >= 0, OptionError, "--max-requeues must be at least 0, not {}",
              options.max_requeues);
  SHOAL_CHECK(options.max_no_progress >= 0, OptionError, "--max-no-progress must be at least 0 (0: any number), not {}",
              options.max_no_progress);
  SHOAL_CHECK(std::isfinite(options.time_margin) && options.time_margin >= 0, OptionError,
              "--time-margin must be a number of seconds >= 0, not {}", options.time_margin);
  SHOAL_CHECK(options.hang_timeout == 0 || (options.hang_timeout >= 1 && options.hang_timeout < 1e7), OptionError,
              "--hang-timeout must be a number of seconds >= 1, or 0 for none, not {}", options.hang_timeout);
}

}  // namespace shoal::train
