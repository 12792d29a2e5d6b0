// Where the ranks of shoal train are and which GPU each computes on.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "comm/process_group.h"
#include "launch/mpi_session.h"
#include "launch/run_directory.h"
#include "train/options.h"

namespace shoal::apps {

// Collective over `world`. This rank's device, which is of one kind on all ranks. Shows the table of places and warns
// of those that cost speed; rank 0 writes them into the run directory of `attempt`, where there is one. What is wrong,
// as more ranks than GPUs, is an AgreedError.
at::Device place_ranks(comm::ProcessGroup& world, const launch::Placement& placement, const train::RunOptions& options,
                       const std::optional<launch::RunAttempt>& attempt);

}  // namespace shoal::apps
