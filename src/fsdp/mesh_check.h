// Whether the groups of a mesh join the ranks that they should, and who they are.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "comm/device_mesh.h"

namespace shoal::fsdp {

// Collective over the mesh and each of its groups, whose data are on `device`. Sends every rank's number through them:
// CommunicationError on all ranks where a group has other members than the mesh says, so that gradients would be summed
// over the wrong ranks, or not at all.
void check_mesh(comm::DeviceMesh& mesh, c10::Device device);

// Collective over the mesh's world. For a line at start: "2 x 4 ranks (replicate x shard); shard groups 0-3 on n01, 4-7
// on n02; replicate groups 0,4 on n01,n02; 1,5 on n01,n02; and 2 more".
std::string topology(comm::DeviceMesh& mesh);

}  // namespace shoal::fsdp
