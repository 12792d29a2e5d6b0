// Doing things on some or all ranks so that a failure anywhere is the same failure everywhere: nobody goes on into a
// collective in which somebody else is missing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/process_group.h"

namespace shoal::checkpoint {

// Collective over `world`. Every rank runs `body`, which must not communicate; returns the results of all, in rank
// order. Where it threw on some rank, all ranks throw what the first of these did, with that rank named.
std::vector<std::string> run_everywhere(comm::ProcessGroup& world, const std::function<std::string()>& body);

// Collective over `world`. Rank 0 runs `body`, which must not communicate; returns its result. Where it threw, all
// ranks throw the same.
std::string run_on_root(comm::ProcessGroup& world, const std::function<std::string()>& body);

}  // namespace shoal::checkpoint
