// What --dry-run shows: a file for --config, with placement, mesh and units in comments.
#pragma once

#include "comm/device_mesh.h"
#include "fsdp/fully_shard.h"
#include "train/options.h"

namespace shoal::apps {

// Prints, on rank 0, the options as they came out, the ranks' groups and the wrapped model.
void show_dry_run(const train::TrainOptions& options, comm::DeviceMesh& mesh, const fsdp::FullyShardedModule& sharded);

// `text` with "# " before each line, as a comment of that file.
void print_comment(const std::string& text);

}  // namespace shoal::apps
