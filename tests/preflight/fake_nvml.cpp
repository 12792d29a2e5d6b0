// Stands in for the driver's libnvidia-ml.so.1: two GPUs, the second of which is ill in every way, and an older
// driver's lack of some functions.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <cstdio>
#include <cstring>

namespace {

int number_of(nvmlDevice_t device) { return device == reinterpret_cast<nvmlDevice_t>(2) ? 1 : 0; }

nvmlReturn_t put(const char* text, char* to, unsigned length) {
  if (std::strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::strcpy(to, text);
  return NVML_SUCCESS;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetDriverVersion(char* to, unsigned length) { return put("580.1", to, length); }

// Three, of which this job may use two.
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(static_cast<unsigned long>(index) + 1);
  return index < 2 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* to, unsigned length) {
  return put(number_of(device) == 0 ? "GPU-a" : "GPU-b", to, length);
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char* to, unsigned length) { return put("Fake 1", to, length); }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", 27 + number_of(device));
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long* count) {
  if (type != NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter != NVML_VOLATILE_ECC) return NVML_ERROR_INVALID_ARGUMENT;
  if (number_of(device) == 0) return NVML_ERROR_NOT_SUPPORTED;
  *count = 5;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* corrected, unsigned* uncorrected,
                                       unsigned* pending, unsigned* failed) {
  *corrected = *uncorrected = 0;
  *pending = *failed = number_of(device) == 0 ? 0 : 1;
  return NVML_SUCCESS;
}
// As drivers before 535 call it.
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  *reasons = nvmlClocksEventReasonGpuIdle;
  if (number_of(device) == 1) *reasons |= nvmlClocksThrottleReasonHwThermalSlowdown;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t, unsigned* degrees) {
  *degrees = number_of(device) == 0 ? 31 : 86;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t, nvmlTemperatureThresholds_t kind, unsigned* degrees) {
  *degrees = 87;
  return kind == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  memory->total = 80ull << 30;
  memory->used = number_of(device) == 0 ? 500ull << 20 : 40ull << 30;
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t*) {
  *count = number_of(device) == 0 ? 0 : 2;
  return NVML_SUCCESS;
}

}  // extern "C"
