// The header of NumPy's .npy files (numpy/lib/format.py, versions 1.0 and 2.0): what stands before an array's elements,
// which follow in row-major order, little-endian.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shard/state_dict.h"

namespace shoal::formats {

// NumPy's name of the element type ("<f4"); nothing where it has none: bfloat16, and floats of 8 bits.
std::optional<std::string_view> npy_type(DType dtype);

// A multiple of 64 bytes. InternalError where NumPy lacks the element type.
std::string npy_header(const TensorSpec& spec);

}  // namespace shoal::formats
