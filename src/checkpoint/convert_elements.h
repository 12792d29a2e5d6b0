// From one element type to another, as PyTorch's Tensor.to() does it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shard/dtype.h"

namespace shoal::checkpoint {

// Floating types among each other, but none to one of 8 bits; every other type only to itself.
constexpr bool is_convertible(DType from, DType to) {
  return from == to || (is_floating(from) && is_floating(to) && !is_float8(to));
}

// `count` elements, rounded to nearest-even; what is too large becomes infinite. float64 becomes a 16-bit type by way
// of float32. InternalError where the types are not convertible. They do not overlap.
void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::int64_t count);

}  // namespace shoal::checkpoint
