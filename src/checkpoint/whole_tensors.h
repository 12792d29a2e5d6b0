// Whether a restore has put every tensor together as it was saved, however it was cut then and is cut now.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/region_table.h"
#include "comm/process_group.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

// Collective over `world`. `tensors[i]` is what this rank holds of tensor i of the manifest, in host memory; `tables`
// are those of all files. The checksums of whole tensors follow from the tables', and from those of the regions in
// memory: InternalError on all ranks where they differ, or where the ranks that would save a tensor do not hold each
// element once. It names the tensors.
void check_whole_tensors(comm::ProcessGroup& world, const Manifest& manifest, const std::vector<RegionTable>& tables,
                         const std::vector<ShardedTensor*>& tensors, const std::string& where);

}  // namespace shoal::checkpoint
