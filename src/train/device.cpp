#include "train/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/cuda.h>

#include "comm/gpu_identity.h"
#include "comm/nccl_process_group.h"
#include "core/check.h"

namespace shoal::train {

std::vector<launch::GpuPlace> visible_gpus(const std::string& wanted, const launch::Machine& machine) {
  std::vector<launch::GpuPlace> gpus;
  if (wanted == "cpu") return gpus;
  const auto visible = static_cast<int>(torch::cuda::device_count());
  SHOAL_CHECK(
      visible > 0 || wanted != "cuda", DeviceError,
      "--device cuda: there is no GPU that this program can use (no GPU, no driver, none that srun gave to this "
      "task (--gpus-per-task, --gpus-per-node), or a build without CUDA); use --device cpu or auto");
  for (int device = 0; device < visible; ++device) {
    const comm::GpuIdentity known_as = comm::gpu_identity(device);
    gpus.push_back({known_as.pci, known_as.uuid, machine.numa_of_pci(known_as.pci)});
  }
  return gpus;
}

at::Device device_of(const launch::RankPlace& place) {
  if (place.gpu < 0) return at::kCPU;
  return {at::kCUDA, static_cast<at::DeviceIndex>(place.gpu)};
}

data::Batch to_device(const data::Batch& batch, at::Device device, std::optional<at::ScalarType> input_dtype) {
  data::Batch there{batch.inputs.to(device), batch.targets.to(device), batch.predicted};
  if (input_dtype && there.inputs.is_floating_point()) there.inputs = there.inputs.to(*input_dtype);
  return there;
}

std::int64_t peak_device_memory(at::Device device) {
  if (device.is_cpu()) return 0;
  using namespace c10::CachingAllocator;
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return stats.allocated_bytes[static_cast<std::size_t>(StatType::AGGREGATE)].peak + comm::allocated_bytes();
}

std::int64_t device_memory(at::Device device) {
  if (device.is_cpu()) return 0;
  return static_cast<std::int64_t>(at::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).second);
}

}  // namespace shoal::train
