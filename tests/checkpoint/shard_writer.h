// Writes one rank's shard file without threads or copies: what the others are compared with.
#pragma once

#include <filesystem>

#include "checkpoint/shard_output.h"

namespace shoal::testing {

// The whole of a ShardOutput's life, with the bytes straight from the state's regions in host memory.
checkpoint::ShardFile write_shard(const std::filesystem::path& directory, const checkpoint::ShardHeader& header,
                                  const StateDict& state, const checkpoint::SaveObserver& observer = {});

}  // namespace shoal::testing
