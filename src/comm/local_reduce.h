// The arithmetic of a reduction on one rank: what every backend without a reducing network does with what came in.
#pragma once

#include <cstdint>
#include <span>

#include "comm/process_group.h"

namespace shoal::comm {

// output[i] is inputs[0][i] op inputs[1][i] op …, as a binary tree: neighbours are paired, then neighbouring pairs, and
// so on, and an odd one out moves up; five inputs give ((0 1) (2 3)) 4. The order of arrival never shows in the result,
// and inputs that are such trees over 2^k terms themselves give the tree over all of these. 16-bit floats are
// accumulated in float32 and rounded once. `output` may be one of the inputs.
void local_reduce(std::span<const void* const> inputs, void* output, std::int64_t count, DType dtype, ReduceOp op);

}  // namespace shoal::comm
