// Doing things on some or all ranks so that a failure anywhere is the same failure everywhere: nobody goes on into a
// collective in which somebody else is missing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/process_group.h"

namespace shoal::checkpoint {

// `phase`: what a time-out says that the ranks waited in, after the activity of the group: "rank 0 commits it".
using Body = std::function<std::string()>;

// Collective over `world`. Every rank runs `body`, which must not communicate; returns the results of all, in rank
// order. Where it threw on some rank, all ranks throw what the first of these did, with that rank named.
std::vector<std::string> run_everywhere(comm::ProcessGroup& world, std::string_view phase, const Body& body);
std::vector<std::string> run_everywhere(comm::ProcessGroup& world, const Body& body);

// Collective over `world`. Rank 0 runs `body`, which must not communicate; returns its result. Where it threw, all
// ranks throw the same.
std::string run_on_root(comm::ProcessGroup& world, std::string_view phase, const Body& body);
std::string run_on_root(comm::ProcessGroup& world, const Body& body);

}  // namespace shoal::checkpoint
