#include "core/error.h"
#include "preflight/gpu_bus.h"

namespace shoal::preflight {

int nccl_version() { return 0; }
int visible_gpus() { return 0; }
void take_gpu(int /*device*/) { throw DeviceError("this build has no CUDA backend"); }
BusSpeed measure_all_reduce(Context& /*context*/, int /*device*/) {
  throw DeviceError("this build has no CUDA backend");
}

}  // namespace shoal::preflight
