// How many threads of computation a rank should have, so that the ranks of a node use its cores once.
#pragma once

#include <vector>

#include "comm/process_group.h"

namespace shoal::train {

using CpuSet = std::vector<int>;  // numbers of the logical cores that a process may run on, in rising order

// A core counts in equal parts for all ranks of the node that may use it; at least 1. `node` holds the sets of all
// ranks of the node, `mine` is one of them.
int fair_threads(const std::vector<CpuSet>& node, const CpuSet& mine);

// Collective over `world` (host memory).
int fair_threads(comm::ProcessGroup& world, const std::string& host);

}  // namespace shoal::train
