#include "train/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/cuda.h>

#include "comm/nccl_process_group.h"
#include "core/check.h"

namespace shoal::train {

at::Device choose_device(const std::string& wanted, int local_rank, int local_size) {
  if (wanted == "cpu") return at::kCPU;
  const auto visible = static_cast<int>(torch::cuda::device_count());
  if (visible == 0) {
    SHOAL_CHECK(wanted != "cuda", DeviceError,
                "--device cuda: there is no GPU that this program can use (no GPU, no driver, or a build without "
                "CUDA); use --device cpu or auto");
    return at::kCPU;
  }
  SHOAL_CHECK(visible == 1 || visible >= local_size, DeviceError,
              "{} ranks on this node, but each sees {} GPUs: start as many ranks as there are GPUs "
              "(mpirun -n, srun --ntasks-per-node), or use --device cpu",
              local_size, visible);
  return {at::kCUDA, static_cast<at::DeviceIndex>(visible == 1 ? 0 : local_rank)};
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
