// The arithmetic of a reduction on one rank: what every backend without a reducing network does with what came in.
#pragma once

#include <cstdint>
#include <span>

#include "comm/process_group.h"

namespace shoal::comm {

// output[i] = inputs[0][i] op inputs[1][i] op …, from left to right, so that the order of arrival never shows in the
// result. 16-bit floats are accumulated in float32 and rounded once. `output` may be one of the inputs.
void local_reduce(std::span<const void* const> inputs, void* output, std::int64_t count, DType dtype, ReduceOp op);

}  // namespace shoal::comm
