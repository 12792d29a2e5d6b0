// Initial weights from a file of whole tensors: every rank reads its own ranges, or rank 0 reads for all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/match_rules.h"
#include "comm/process_group.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

struct LoadWeightsOptions {
  // World rank 0 alone opens the file and broadcasts it piece by piece: for a file that only rank 0 sees, and for file
  // systems that many readers slow down.
  bool rank0_reads = false;
  MatchRules rules;
};

// The same on every rank.
struct LoadWeightsReport {
  std::filesystem::path path;  // the file, also where a folder was given
  std::string format;
  std::int64_t tensors = 0;
  std::int64_t elements = 0;       // of the model
  std::int64_t bytes_read = 0;     // tensors' bytes that all ranks together have read
  std::vector<std::string> notes;  // differences between file and model that were understood
  double seconds = 0;
  std::string text() const;  // all of it but the path, in one line
};

// Collective over `world` (host memory). Fills every region of `state`, whose tensors are "model/…" alone and the same
// on every rank; the caller then calls state.loaded(). Element types are converted (fp64, fp32, fp16, bf16 among each
// other). A rank needs memory for one piece of a few MiB beside the regions; a file without conversion is read
// straight into them. weights_file.h says what may be read, weights_match.h how names are compared. What
// options.rules let the file lack keeps its values.
// Where it fails, all ranks throw the same: IoError, or CheckpointError for a damaged file, the file of another model,
// tensors that the model ties and that differ in the file, and ranks that see different files at `source`. The regions
// are undefined then.
LoadWeightsReport load_weights(comm::ProcessGroup& world, const std::filesystem::path& source, StateDict& state,
                               const LoadWeightsOptions& options = {});

}  // namespace shoal::checkpoint
