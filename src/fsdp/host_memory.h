// Tensors of any device as regions of a StateDict, which points to host memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "shard/state_dict.h"

namespace shoal::fsdp {

// The elements of contiguous `tensor` on the host: its own memory, or for a device's tensor a copy that `state` owns
// and writes back when it is loaded.
std::byte* host_memory(const at::Tensor& tensor, StateDict& state);

}  // namespace shoal::fsdp
