// How fast NCCL adds up over GPUs. Where the build has no CUDA, no_gpu_bus.cpp stands in.
#pragma once

#include <string>
#include <vector>

#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

int nccl_version();         // as NCCL numbers them; 0: a build without NCCL
int visible_gpus();         // to CUDA; 0 where there is no driver too
void take_gpu(int device);  // makes it the current one and starts CUDA on it; DeviceError

// "busbw" of an all-reduce as nccl-tests defines it (NVIDIA/nccl-tests, doc/PERFORMANCE.md): bytes / seconds times
// 2 (n - 1) / n, the speed of the links whatever the number of ranks. GB/s, 10^9 bytes.
double all_reduce_bus_bandwidth(double bytes, double seconds, int ranks);

struct BusSpeed {
  double node = 0, job = 0;  // GB/s among the ranks of this node, and of all; 0: not measured
  bool wrong_sum = false;    // some element did not hold the sum
};

// Collective over the job, each rank with a GPU of its own, which take_gpu() has had. CommunicationError or DeviceError
// where NCCL does not start; a collective that hangs ends the process.
BusSpeed measure_all_reduce(Context& context, int device);

// Collective over the job. nccl.node and nccl.job, or one check that says why not. `device`: the number of the GPU that
// this rank takes; -1: none. `required`: no GPU at all is a failure too.
std::vector<CheckResult> check_gpu_bus(Context& context, int device, bool required);

// `speeds`, `hosts`: of the ranks. A host with less than half of the median fails.
CheckResult judge_node_bus(const std::vector<BusSpeed>& speeds, const std::vector<std::string>& hosts);
CheckResult judge_job_bus(const std::vector<BusSpeed>& speeds, const std::vector<std::string>& hosts);

}  // namespace shoal::preflight
