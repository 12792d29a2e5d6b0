// Before and after the loop: is there room for what the run will write, and its last file.
#pragma once

#include <cstdint>
#include <filesystem>

#include "comm/process_group.h"
#include "train/options.h"

namespace shoal::train {

// IoError where the checkpoint directory, or the nearest folder above it that exists, cannot be written. Writes
// nothing. Returns the one that exists.
std::filesystem::path check_checkpoint_dir(const TrainOptions& options);

// The same, and IoError where not even one checkpoint of that many bytes and `ranks` files fits there. Fewer than
// --keep + 1 are a warning (checkpoint_room.h).
void check_room(const TrainOptions& options, std::int64_t bytes_a_checkpoint, int ranks);

// Collective over `world`. Rank 0 writes --output from `checkpoint` while the others wait, or all ranks do
// (--output-driver). A file that is there is replaced once the new one is complete.
void write_output(comm::ProcessGroup& world, const std::filesystem::path& checkpoint, const CheckpointOptions& options);

}  // namespace shoal::train
