// Host memory for the copies from which a checkpoint is written while training goes on.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "checkpoint/staging_pool.h"
#include "comm/process_group.h"
#include "train/options.h"

namespace shoal::train {

// Bytes that the copies of one rank may take: --stage-gib, or where that is not given a quarter of the memory that is
// free on the rank's host, shared evenly by the ranks there. Collective over `world`.
std::int64_t stage_bytes(comm::ProcessGroup& world, const CheckpointOptions& options);

// Pinned where `device` is a GPU.
checkpoint::StagingPool::Allocate stage_allocator(c10::Device device);

}  // namespace shoal::train
