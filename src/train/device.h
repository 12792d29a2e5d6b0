// Where a rank computes.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "launch/rank_place.h"

namespace shoal::train {

// The GPUs that this rank may use where `wanted` (--device) is auto, cpu or cuda, by CUDA's numbers; none for cpu, and
// for auto where there is none. DeviceError where cuda is wanted and not there.
std::vector<launch::GpuPlace> visible_gpus(const std::string& wanted, const launch::Machine& machine);

// Where launch::choose_gpus() put the rank.
at::Device device_of(const launch::RankPlace& place);

// What batches for `device` are prepared in.
data::Loader::Memory batch_memory(at::Device device);

// The batch's tensors on `device`, floating inputs in `input_dtype` where one is given; without copies where nothing
// changes. From pinned memory they are only queued on the current stream.
data::Batch to_device(const data::Batch& batch, at::Device device, std::optional<at::ScalarType> input_dtype);

// What it is called: "cpu", "NVIDIA H100 80GB HBM3".
std::string device_name(at::Device device);

// Bytes at this moment, and the most so far.
struct MemoryUse {
  std::optional<std::int64_t> allocated;  // of tensors and of collectives' memory; not known on a CPU
  std::int64_t reserved = 0;              // by LibTorch's allocator, and of collectives; on a CPU, of the process
  std::int64_t peak = 0;                  // of `allocated`; on a CPU, of `reserved`
};
MemoryUse memory_use(at::Device device);

// Bytes of tensors that `device` has held at most in this process, and of the memory that collectives work in now; 0
// for the CPU.
std::int64_t peak_device_memory(at::Device device);

// Bytes of memory that `device` has in all; 0 for the CPU.
std::int64_t device_memory(at::Device device);

}  // namespace shoal::train
