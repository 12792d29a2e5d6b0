// Copies of flat arrays in another floating type, on the host.
#pragma once

#include <cstdint>

#include "shard/dtype.h"

namespace shoal::optim {

// to[i] = from[i], rounded to nearest even. `from_dtype` is float32 or float64, `to_dtype` any floating type; to 16
// bits a float64 goes by way of float32, as LibTorch has it. The arrays do not overlap.
void round_elements(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count);

}  // namespace shoal::optim
