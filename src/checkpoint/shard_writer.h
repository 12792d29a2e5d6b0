// Writes one rank's shard file, and returns when it is on the disk.
#pragma once

#include <filesystem>

#include "checkpoint/shard_output.h"

namespace shoal::checkpoint {

// The whole of a ShardOutput's life, with the bytes straight from the state's regions in host memory.
ShardFile write_shard(const std::filesystem::path& directory, const ShardHeader& header, const StateDict& state,
                      const SaveObserver& observer = {});

}  // namespace shoal::checkpoint
