// From what the checks found to what people and scripts read: a table, JSON, hosts to leave out, an exit code.
#pragma once

#include <string>
#include <vector>

#include "preflight/record.h"

namespace shoal::preflight {

struct Report {
  std::vector<CheckResult> checks;
  std::vector<std::string> hosts;  // of the ranks, in their order; may hold a host many times
  double seconds = 0;
};

// The hosts to blame, each once, in the order of the ranks: those that fail a check which as many others pass, or more.
// What fails on most (a full disk, a directory that is on no parallel file system) is no host's fault.
std::vector<std::string> bad_hosts(const Report& report);

// Of the failures; warnings are none. Where several checks failed, the first of: communication, device, io, any other.
ExitCode exit_code_of(const Report& report);

// One line a check, and below it one for each finding that is not well, with the hosts and ranks that share it. The
// last lines count, and give bad_hosts() as `sbatch --exclude=` takes them.
std::string table_of(const Report& report);

// docs/preflight.md gives the form.
std::string json_of(const Report& report);

}  // namespace shoal::preflight
