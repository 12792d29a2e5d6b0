// The records of a run directory, as values. Times are UNIX times in seconds, by the clock of the host that wrote them.
// Parsing throws IoError that names the file and what is wrong with it; NewerVersionError where that is its age.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/run_directory.h"

namespace shoal::launch {

// Stands in attempts and in status.json; another number where a reader of this one would misunderstand. Records without
// one are of version 1.
inline constexpr int kRecordVersion = 1;

class NewerVersionError : public IoError {
 public:
  using IoError::IoError;
};

// How an attempt, or a run, ended. `running` is also what a killed attempt leaves behind.
enum class RunState { running, finished, stopped, failed, superseded, no_progress };
const char* text_of(RunState state);
RunState state_of_exit_code(int exit_code);

struct AttemptRecord {
  int attempt = 0;
  // Of Slurm: what stays the same while a job is requeued, "123", or "100_7" for a task of an array; empty outside.
  std::string job;
  std::string chain;  // the array's job id for a task of an array, else `job`
  int restart_count = 0;
  std::string host;  // of rank 0
  std::int64_t process = 0;
  int ranks = 0;
  double started = 0;
  std::optional<std::int64_t> start_step;  // that it went on from; not known until the checkpoint was restored
  std::optional<std::int64_t> end_step;    // saved last
  std::optional<double> ended;
  RunState state = RunState::running;
  std::optional<int> exit_code;
  std::string reason;                        // of the end
  bool requeued = false;                     // by us, through scontrol
  std::optional<double> checkpoint_seconds;  // measured, 95th percentile
};

struct FailureRecord {
  int attempt = 0, rank = 0;
  std::string host, gpu;  // gpu empty: none
  double time = 0;
  std::string reason;
  int exit_code = 0;
};

struct RunStatus {
  int attempt = 0;
  std::string job;
  RunState state = RunState::running;
  std::string phase;  // what it is at: "training", "saving", …
  std::int64_t step = 0, total_steps = 0;
  std::int64_t epoch = 0;
  double loss = 0;
  double samples_per_second = 0, seconds_per_step = 0;  // recent; 0: not known yet
  std::string last_checkpoint;                          // its path; empty: none
  std::int64_t last_checkpoint_step = -1;
  double last_checkpoint_time = 0;
  std::string host;  // of rank 0
  int ranks = 0;
  double updated = 0;
  std::optional<double> deadline;  // when the time limit strikes
};

std::string format(const AttemptRecord& record);
std::string format(const FailureRecord& record);
std::string format(const RunStatus& status);
AttemptRecord parse_attempt(const std::string& text, const std::string& where);
FailureRecord parse_failure(const std::string& text, const std::string& where);
RunStatus parse_status(const std::string& text, const std::string& where);

// Ascending. A record that cannot be read or parsed is left out with a warning: it may be of a newer version, or empty
// after a crash, and must not keep a job from starting.
std::vector<AttemptRecord> read_attempts(const RunDirectory& directory);

}  // namespace shoal::launch
