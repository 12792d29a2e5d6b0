#include "comm/gpu_identity.h"
#include "comm/nccl_process_group.h"
#include "core/error.h"

namespace shoal::comm {

std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& /*control*/, int /*device*/,
                                              std::function<void*()> /*current_stream*/, NcclOptions /*options*/) {
  throw DeviceError(
      "this build has no CUDA backend: use --device cpu, or configure with the cuda preset where nvcc is");
}

GpuIdentity gpu_identity(int /*device*/) { throw DeviceError("this build has no CUDA backend"); }

std::int64_t allocated_bytes() { return 0; }

}  // namespace shoal::comm
