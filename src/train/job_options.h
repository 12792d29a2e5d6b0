// The options of what a job does besides training: docs/running.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shoal::train {

struct JobOptions {
  std::filesystem::path run_dir;  // "none": no notes
  std::string requeue = "never";  // never, on-signal, on-deadline, or both with a comma
  int max_requeues = 20;          // by us, of one job
  int max_no_progress = 3;        // attempts of a job in a row that came no step further; 0: any number
  std::string time_limit = "0";   // as sbatch takes it, from the program's start; 0: none but Slurm's
  double time_margin = 60;        // seconds that stay between the saved checkpoint and the limit
  double hang_timeout = 600;      // seconds in which nothing moves on some rank; 0: any number
};

struct TrainOptions;
bool has_run_directory(const TrainOptions& options);
// Seconds; nothing where there is none. OptionError that names --time-limit.
std::optional<std::int64_t> time_limit_seconds(const JobOptions& options);
void check_job(const JobOptions& options);

}  // namespace shoal::train
