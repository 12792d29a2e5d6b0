#include "train/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

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

data::Loader::Memory batch_memory(at::Device device) {
  return device.is_cpu() ? data::Loader::Memory::plain : data::Loader::Memory::pinned;
}

data::Batch to_device(const data::Batch& batch, at::Device device, std::optional<at::ScalarType> input_dtype) {
  const auto queued = [&](const at::Tensor& tensor) {
    return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true);
  };
  data::Batch there{queued(batch.inputs), queued(batch.targets), batch.predicted};
  if (input_dtype && there.inputs.is_floating_point()) there.inputs = there.inputs.to(*input_dtype);
  return there;
}

std::string device_name(at::Device device) { return device.is_cpu() ? "cpu" : comm::gpu_identity(device.index()).name; }

namespace {

MemoryUse process_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  const std::int64_t now = resident * ::sysconf(_SC_PAGESIZE);
  return {.reserved = now, .peak = std::max(now, std::int64_t{usage.ru_maxrss} * 1024)};  // the kernel's counts lag
}

}  // namespace

MemoryUse memory_use(at::Device device) {
  if (device.is_cpu()) return process_memory();
  using namespace c10::CachingAllocator;
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  constexpr auto kAll = static_cast<std::size_t>(StatType::AGGREGATE);
  return {.allocated = stats.allocated_bytes[kAll].current + comm::allocated_bytes(),
          .reserved = stats.reserved_bytes[kAll].current + comm::allocated_bytes(),
          .peak = peak_device_memory(device)};
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
