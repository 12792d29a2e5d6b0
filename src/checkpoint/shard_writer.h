// Writes one rank's shard file.
#pragma once

#include <filesystem>

#include "checkpoint/manifest.h"
#include "checkpoint/save_point.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

struct ShardHeader {
  std::string id;
  std::int64_t step = 0;
  int rank = 0, ranks = 0;
};

// Into `directory`, under the name that header and rank give; synced. HDF5 lays the file out, the data go past it.
// Regions with count 0 or saves == false are left out. Throws IoError (disk full, quota, …); the file then stays, for
// the caller to remove with its directory.
ShardFile write_shard(const std::filesystem::path& directory, const ShardHeader& header, const StateDict& state,
                      const SaveObserver& observer = {});

}  // namespace shoal::checkpoint
