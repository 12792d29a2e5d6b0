// The health of the GPUs of a node, as the driver's management library (NVML) tells it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

// One GPU. What the driver does not tell (older, or a GPU without it) is left out.
struct GpuState {
  std::string uuid, pci, name, driver;
  std::optional<std::uint64_t> ecc_uncorrected;      // since the driver was loaded
  bool retirement_pending = false;                   // pages or rows are replaced at the next reset
  bool remap_failed = false;                         // there was no spare row left
  std::uint64_t slow_reasons = 0;                    // those of NVML's reasons for lower clocks that mean trouble
  std::optional<int> temperature, slow_temperature;  // now, and where the GPU slows down, °C
  double used_bytes = 0, total_bytes = 0;            // of its memory, before this job has any
  int processes = 0;                                 // that compute on it
  std::vector<int> xids;                             // that the kernel logged since boot, or that came meanwhile
};

struct GpuReading {
  std::string none;         // why there is nothing to tell: no library, no GPU
  bool knows_xids = false;  // the kernel's log may be read
  std::vector<GpuState> gpus;
};

// All GPUs that this process may see, whatever CUDA_VISIBLE_DEVICES says. Takes no GPU's memory. No errors: what cannot
// be asked is not told.
GpuReading read_gpus();

// One record, of the worst that is found; `found` lists all.
Record judge_gpu(const GpuState& gpu);

// The Xid errors of each GPU in lines of the kernel's log: "NVRM: Xid (PCI:0000:1b:00): 79, …".
std::vector<int> xids_in(const std::string& kernel_log, const std::string& pci);
// None where it may not be read.
std::optional<std::string> read_kernel_log();

// In NVML's numbers, which do not change: for judge_gpu() and its tests where there is no NVML.
inline constexpr std::uint64_t kHardwareSlowdown = 0x08, kSoftwareThermal = 0x20, kHardwareThermal = 0x40,
                               kPowerBrake = 0x80;

// Collective over the job, before any rank has taken a GPU's memory. Each GPU is judged once, by the first rank that
// sees it; different drivers are a failure on the nodes that differ from most.
CheckResult check_gpus(Context& context);
std::vector<Record> judge_drivers(const std::vector<std::string>& of_ranks, const std::vector<std::string>& hosts);

}  // namespace shoal::preflight
