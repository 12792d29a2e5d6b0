// Which rank copies what, and when, where all ranks write one HDF5 file at once.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/export_pieces.h"
#include "comm/process_group.h"

namespace shoal::checkpoint {

// Collective over `world`. Rank 0 looks at the checkpoint and decides what goes where, as Export does; all ranks get
// that but for the layout's records, which are rank 0's alone.
ExportSource share_source(comm::ProcessGroup& world, const struct ExportOptions& options);

// One collective write: every rank takes part in each, with a piece of this tensor or with nothing.
struct CollectiveWrite {
  std::size_t tensor = 0;                          // of the plan
  std::vector<std::optional<std::size_t>> pieces;  // of each rank
};

// Tensor by tensor. A rank of several gets the part of a tensor that lies where the rank stands among them, which is
// mostly what it has saved itself.
std::vector<CollectiveWrite> plan_writes(const ExportSource& source, int ranks);

}  // namespace shoal::checkpoint
