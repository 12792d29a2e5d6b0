// What the ranks of a job compare before they save.
#pragma once

#include <cstdint>
#include <string>

#include "comm/process_group.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

// Collective over `world`. InternalError where a rank saves other tensors, another step or another training state than
// rank 0, or where an element is saved by nobody: that is found here, while the data are still in memory, and not by a
// restart.
void check_state(comm::ProcessGroup& world, std::int64_t step, const StateDict& state,
                 const std::string& training_state);

}  // namespace shoal::checkpoint
