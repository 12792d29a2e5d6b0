// A command of the system, run and waited for, but not for ever: for the rare question to a scheduler.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace shoal::launch {

struct CommandResult {
  bool started = false;  // false: there is no such program, or the system gives no process; `error` says why
  bool timed_out = false;
  int exit_code = -1;  // 128 + N: ended by signal N
  std::string output, error;

  bool ok() const { return started && !timed_out && exit_code == 0; }
  // Why not, in one line: "exit code 1: slurm_load_jobs error: Invalid job id", "did not answer within 10 s", …
  std::string problem(std::chrono::milliseconds limit) const;
};

// `command[0]` is looked for on PATH. After `limit` the command and what it started are killed. Of each stream one MiB
// is kept. Starts no copy of this process, so MPI and CUDA do not mind.
CommandResult run_command(const std::vector<std::string>& command, std::chrono::milliseconds limit);

// What run_command() is, so that tests can stand in for it.
using CommandRunner = std::function<CommandResult(const std::vector<std::string>&, std::chrono::milliseconds)>;

}  // namespace shoal::launch
