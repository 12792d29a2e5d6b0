// Waiting for what other ranks do on threads of their own, for as long as they get on with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include "comm/process_group.h"

namespace shoal::checkpoint {

struct BackgroundWork {
  // Whether this rank's is over; waits for that, but not longer than it is told.
  std::function<bool(std::chrono::milliseconds)> over_within;
  std::function<std::int64_t()> moves;  // changes while it gets on
};

// Collective over `world`. Returns when it is over on all ranks. A disk may be as slow as it likes: only where a rank's
// work has not moved for as long as the group's time limit, all ranks throw the same LateRanksError, which names it
// with its host. A rank that does not come at all is named by the group itself.
void wait_for_all(comm::ProcessGroup& world, std::string_view phase, const BackgroundWork& work);

}  // namespace shoal::checkpoint
