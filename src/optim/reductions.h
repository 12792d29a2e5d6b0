// Reductions over flat arrays, in an order that does not depend on the processor.
#pragma once

#include <cstdint>

#include "shard/dtype.h"

namespace shoal::optim {

// Sum of the squares of `count` elements on the host, added up in double. float32 or float64.
double sum_of_squares(const void* data, DType dtype, std::int64_t count);

}  // namespace shoal::optim
