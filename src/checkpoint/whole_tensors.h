// Whether a restore has put every tensor together as it was saved, however it was cut then and is cut now.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/placed_elements.h"
#include "checkpoint/region_table.h"
#include "comm/process_group.h"

namespace shoal::checkpoint {

// Collective over `world`. `placed` is what this rank has put into the memory of each tensor of the manifest; `tables`
// are those of all files. The checksums of whole tensors follow from the tables', and from those of what was placed:
// InternalError on all ranks where they differ, or where the ranks that would save a tensor have not placed each
// element once. It names the tensors.
void check_whole_tensors(comm::ProcessGroup& world, const Manifest& manifest, const std::vector<RegionTable>& tables,
                         const PlacedElements& placed, const std::string& where);

}  // namespace shoal::checkpoint
