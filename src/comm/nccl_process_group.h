// Collectives over NCCL, on the memory of one GPU a rank. Where the build has no CUDA, no_nccl.cpp stands in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/process_group.h"

namespace shoal::comm {

struct NcclOptions {
  // With more ranks than this, several of them share the work of bringing the ranks together, one for so many.
  int ranks_per_root = 128;
  // allocate() gives symmetric windows in groups for gathers and mixed traffic; copy engines move gathers out of them.
  bool windows = true;
  bool copy_engines = true;
  // The same in groups for reductions. Good for an all-to-all; a reduce-scatter is slower where one of its buffers is
  // in a window, so its memory should not come from allocate().
  bool reduce_windows = true;
  // The calls of the groups that come from split() queue their work and return; else NCCL starts a thread for each.
  bool blocking_calls = true;
  // Gets one line when a collective has not ended within the group's time limit, when NCCL meets an error behind the
  // main thread's back, or when a rank of this host has died. Called on a thread of its own while the main thread may
  // wait for the GPU, so it should end the process. Not set: the line is logged and the process ends with the exit
  // code for communication, which makes the launcher end the job.
  std::function<void(const std::string&)> on_trouble;
};

// Collective over `control` (host memory), whose ranks become those of the group; each rank must have its own GPU,
// number `device` of those it sees, which becomes the current one. `current_stream` gives the cudaStream_t on which the
// caller queues its work. All within the control group's time limit. CommunicationError for a rank that does not come,
// which is named with its host, and for ranks with different versions of NCCL; DeviceError for two ranks on one GPU and
// in a build without CUDA. `control` is not used after the call.
std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& control, int device, std::function<void*()> current_stream,
                                              NcclOptions options = {});

// Of GPU memory, held through allocate() in all groups of this process; LibTorch's allocator does not count them.
std::int64_t allocated_bytes();

}  // namespace shoal::comm
