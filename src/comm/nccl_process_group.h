// Collectives over NCCL, on the memory of one GPU a rank. Where the build has no CUDA, no_nccl.cpp stands in.
#pragma once

#include <functional>
#include <memory>

#include "comm/process_group.h"

namespace shoal::comm {

// Collective over `control` (host memory), whose ranks become those of the group; each rank must have its own GPU,
// number `device` of those it sees. `current_stream` gives the cudaStream_t on which the caller queues its work. The
// communicator is made within the control group's time limit, else CommunicationError. DeviceError in a build without
// CUDA.
std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& control, int device, std::function<void*()> current_stream);

}  // namespace shoal::comm
