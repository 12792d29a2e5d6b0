#include "preflight/gpus.h"

namespace shoal::preflight {

GpuReading read_gpus() { return {.none = "this build has no NVML (nvml.h was not found)"}; }

}  // namespace shoal::preflight
