// The same arithmetic on the memory of a GPU. device.cu has it; no_device.cpp stands in where the build has no CUDA.
#pragma once

#include <cstdint>

#include "shard/dtype.h"

namespace shoal::optim {

// Applies `rule` to `count` elements in device memory, queued on `stream` (a cudaStream_t). States that the rule does
// not have may be null.
template <typename T, typename Rule>
void apply_on_device(const Rule& rule, T* param, const T* grad, T* state0, T* state1, std::int64_t count, void* stream);

// Waits for `stream`. The order of the additions depends on `count` alone.
double sum_of_squares_on_device(const void* data, DType dtype, std::int64_t count, void* stream);

}  // namespace shoal::optim
