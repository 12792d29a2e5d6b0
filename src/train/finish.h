// Before and after the loop: is there room for what the run will write, and its last file.
#pragma once

#include <cstdint>
#include <filesystem>

#include "comm/process_group.h"
#include "train/options.h"

namespace shoal::train {

// IoError where the file system of the checkpoint directory cannot hold --keep + 1 checkpoints of that size, or the
// directory, or the nearest folder above it that exists, cannot be written. Writes nothing.
void check_room(const TrainOptions& options, std::int64_t bytes_a_checkpoint);

// Collective over `world`. Rank 0 writes --output from `checkpoint`; the others wait. A file that is there is replaced
// once the new one is complete.
void write_output(comm::ProcessGroup& world, const std::filesystem::path& checkpoint,
                  const std::filesystem::path& output);

}  // namespace shoal::train
