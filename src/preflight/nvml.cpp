#define NVML_NO_UNVERSIONED_FUNC_DEFS  // the names below are those of the library, not those the header makes of them
#include <dlfcn.h>
#include <nvml.h>

#include <array>
#include <functional>
#include <memory>

#include "preflight/gpus.h"

namespace shoal::preflight {
namespace {

// The library comes with the driver, so it is looked for when the program runs.
class Library {
 public:
  Library() : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), dlclose) {
    if (handle_ && call<nvmlReturn_t()>("nvmlInit_v2")() != NVML_SUCCESS) handle_.reset();
  }
  ~Library() {
    if (handle_) call<nvmlReturn_t()>("nvmlShutdown")();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  explicit operator bool() const { return handle_ != nullptr; }

  // A function that does nothing but say so, where this driver's library has no such function.
  template <typename Signature>
  std::function<Signature> call(const char* name) const {
    if (void* found = dlsym(handle_.get(), name)) return reinterpret_cast<Signature*>(found);
    return [](auto...) { return NVML_ERROR_FUNCTION_NOT_FOUND; };
  }

 private:
  std::unique_ptr<void, int (*)(void*)> handle_;
};

std::string text_of(const Library& nvml, const char* function, nvmlDevice_t device) {
  std::array<char, 256> text{};
  const auto ask = nvml.call<nvmlReturn_t(nvmlDevice_t, char*, unsigned)>(function);
  return ask(device, text.data(), text.size()) == NVML_SUCCESS ? text.data() : "";
}

std::string driver_of(const Library& nvml) {
  std::array<char, 256> text{};
  const auto ask = nvml.call<nvmlReturn_t(char*, unsigned)>("nvmlSystemGetDriverVersion");
  return ask(text.data(), text.size()) == NVML_SUCCESS ? text.data() : "unknown";
}

void read_memory_errors(const Library& nvml, nvmlDevice_t device, GpuState& gpu) {
  unsigned long long errors = 0;
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t, unsigned long long*)>(
          "nvmlDeviceGetTotalEccErrors")(device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors) ==
      NVML_SUCCESS)
    gpu.ecc_uncorrected = errors;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, unsigned*, unsigned*, unsigned*, unsigned*)>("nvmlDeviceGetRemappedRows")(
          device, &corrected, &uncorrected, &pending, &failed) == NVML_SUCCESS) {
    gpu.retirement_pending = pending != 0;
    gpu.remap_failed = failed != 0;
  }
  nvmlEnableState_t pages = NVML_FEATURE_DISABLED;  // GPUs before Ampere
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, nvmlEnableState_t*)>("nvmlDeviceGetRetiredPagesPendingStatus")(
          device, &pages) == NVML_SUCCESS)
    gpu.retirement_pending = gpu.retirement_pending || pages == NVML_FEATURE_ENABLED;
}

void read_clocks_and_heat(const Library& nvml, nvmlDevice_t device, GpuState& gpu) {
  constexpr std::uint64_t kTrouble = kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake;
  static_assert(kHardwareSlowdown == nvmlClocksThrottleReasonHwSlowdown);
  static_assert(kSoftwareThermal == nvmlClocksEventReasonSwThermalSlowdown);
  static_assert(kHardwareThermal == nvmlClocksThrottleReasonHwThermalSlowdown);
  static_assert(kPowerBrake == nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
  using Reasons = nvmlReturn_t(nvmlDevice_t, unsigned long long*);
  unsigned long long reasons = 0;
  for (const char* name : {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"})
    if (nvml.call<Reasons>(name)(device, &reasons) == NVML_SUCCESS) break;
  gpu.slow_reasons = reasons & kTrouble;
  unsigned degrees = 0;
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, nvmlTemperatureSensors_t, unsigned*)>("nvmlDeviceGetTemperature")(
          device, NVML_TEMPERATURE_GPU, &degrees) == NVML_SUCCESS)
    gpu.temperature = static_cast<int>(degrees);
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, nvmlTemperatureThresholds_t, unsigned*)>(
          "nvmlDeviceGetTemperatureThreshold")(device, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &degrees) == NVML_SUCCESS)
    gpu.slow_temperature = static_cast<int>(degrees);
}

void read_users(const Library& nvml, nvmlDevice_t device, GpuState& gpu) {
  nvmlMemory_t memory{};
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, nvmlMemory_t*)>("nvmlDeviceGetMemoryInfo")(device, &memory) ==
      NVML_SUCCESS) {
    gpu.used_bytes = static_cast<double>(memory.used);
    gpu.total_bytes = static_cast<double>(memory.total);
  }
  std::array<nvmlProcessInfo_t, 64> processes{};
  unsigned count = processes.size();
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, unsigned*, nvmlProcessInfo_t*)>("nvmlDeviceGetComputeRunningProcesses_v3")(
          device, &count, processes.data()) == NVML_SUCCESS)
    gpu.processes = static_cast<int>(count);
}

GpuState read_gpu(const Library& nvml, nvmlDevice_t device, const std::string& driver, const std::string& kernel_log) {
  GpuState gpu{.uuid = text_of(nvml, "nvmlDeviceGetUUID", device),
               .name = text_of(nvml, "nvmlDeviceGetName", device),
               .driver = driver};
  nvmlPciInfo_t pci{};
  if (nvml.call<nvmlReturn_t(nvmlDevice_t, nvmlPciInfo_t*)>("nvmlDeviceGetPciInfo_v3")(device, &pci) == NVML_SUCCESS)
    gpu.pci = pci.busId;
  read_memory_errors(nvml, device, gpu);
  read_clocks_and_heat(nvml, device, gpu);
  read_users(nvml, device, gpu);
  gpu.xids = xids_in(kernel_log, gpu.pci);
  return gpu;
}

}  // namespace

GpuReading read_gpus() {
  const Library nvml;
  if (!nvml) return {.none = "no GPU: the driver's library libnvidia-ml.so.1 is not here"};
  unsigned count = 0;
  if (nvml.call<nvmlReturn_t(unsigned*)>("nvmlDeviceGetCount_v2")(&count) != NVML_SUCCESS || count == 0)
    return {.none = "the driver knows of no GPU"};
  const std::string driver = driver_of(nvml);
  const auto kernel_log = read_kernel_log();
  GpuReading reading{.knows_xids = kernel_log.has_value()};
  for (unsigned i = 0; i < count; ++i) {
    nvmlDevice_t device = nullptr;
    // GPUs that the job was not given may be counted, and refused.
    if (nvml.call<nvmlReturn_t(unsigned, nvmlDevice_t*)>("nvmlDeviceGetHandleByIndex_v2")(i, &device) == NVML_SUCCESS)
      reading.gpus.push_back(read_gpu(nvml, device, driver, kernel_log.value_or("")));
  }
  if (reading.gpus.empty()) reading.none = "none of the driver's GPUs may be asked";
  return reading;
}

}  // namespace shoal::preflight
