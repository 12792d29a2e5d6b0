// Writes one rank's shard file.
#pragma once

#include <filesystem>

#include "checkpoint/save_point.h"
#include "checkpoint/shard_output.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

// Into `directory`, under the name that header and rank give; synced. HDF5 lays the file out, the data go past it.
// Regions with count 0 or saves == false are left out. Throws IoError (disk full, quota, …); the file then stays, for
// the caller to remove with its directory.
ShardFile write_shard(const std::filesystem::path& directory, const ShardHeader& header, const StateDict& state,
                      const SaveObserver& observer = {});

}  // namespace shoal::checkpoint
