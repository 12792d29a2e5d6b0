// Where a rank computes.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

#include "data/dataset.h"

namespace shoal::train {

// What `wanted` (--device: auto, cpu or cuda) means for local rank `local_rank` of `local_size` on its node. A rank
// that sees one GPU takes it; one that sees as many as there are ranks, or more, takes the one of its local rank. auto
// is cuda where this program and the node have it. DeviceError where cuda is wanted and not there, or where ranks
// outnumber the GPUs.
at::Device choose_device(const std::string& wanted, int local_rank, int local_size);

// The batch's tensors on `device`, floating inputs in `input_dtype` where one is given; without copies where nothing
// changes.
data::Batch to_device(const data::Batch& batch, at::Device device, std::optional<at::ScalarType> input_dtype);

// Bytes of tensors that `device` has held at most in this process, and of the memory that collectives work in now; 0
// for the CPU.
std::int64_t peak_device_memory(at::Device device);

// Bytes of memory that `device` has in all; 0 for the CPU.
std::int64_t device_memory(at::Device device);

}  // namespace shoal::train
