// By which names a GPU is known outside of this process, whatever number CUDA gives it here.
#pragma once

#include <string>

namespace shoal::comm {

struct GpuIdentity {
  std::string pci;   // "0000:1b:00.0"
  std::string uuid;  // "GPU-8f3e2d1c-…", the same on every machine that can see it
  std::string name;  // "NVIDIA H100 80GB HBM3"
};

// Of the GPU with CUDA's number `device`. Makes no context on it. DeviceError where CUDA does not tell.
GpuIdentity gpu_identity(int device);

}  // namespace shoal::comm
