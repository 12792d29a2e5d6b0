#include "comm/gpu_identity.h"

#include <fmt/core.h>

#include <array>

#include "comm/nccl_calls.h"

namespace shoal::comm {
namespace {

// As nvidia-smi writes it: 8-4-4-4-12 digits.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

GpuIdentity gpu_identity(int device) {
  std::array<char, 32> pci{};
  SHOAL_CUDA_CALL(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), device));
  cudaDeviceProp properties{};
  SHOAL_CUDA_CALL(cudaGetDeviceProperties(&properties, device));
  return {pci.data(), uuid_text(properties.uuid), properties.name};
}

}  // namespace shoal::comm
