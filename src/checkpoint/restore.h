// Filling a state dict from a checkpoint that any number of ranks wrote. Every rank reads what it holds, file by file,
// straight from the shard files; ranks that hold the same share the reading.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/checkpointer.h"

namespace shoal::checkpoint {

// Collective over `world`. As Checkpointer::restore(state, "auto", rules). `workers`: threads of this rank that read.
std::optional<Restored> restore_newest_sound(comm::ProcessGroup& world, const std::filesystem::path& directory,
                                             StateDict& state, const MatchRules& rules, int workers);

// Collective over `world`. `path`: one checkpoint, or a directory of checkpoints, whose newest is meant.
Restored restore_from(comm::ProcessGroup& world, const std::filesystem::path& path, StateDict& state,
                      const MatchRules& rules, int workers);

}  // namespace shoal::checkpoint
