// Element types, as values that need neither LibTorch nor HDF5. Names are those of safetensors' spirit in lower case.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoal {

enum class DType : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  float8_e4m3fn,
  float8_e5m2,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean
};

std::int64_t size_of(DType dtype) noexcept;      // bytes an element
std::string_view name_of(DType dtype) noexcept;  // "float32", …, "bool"
DType dtype_from_name(std::string_view name);    // throws CheckpointError where the name is none of these
constexpr bool is_floating(DType dtype) noexcept { return dtype <= DType::float8_e5m2; }
// Kept and handed on, bit for bit, and converted to wider types; nothing is computed in them.
constexpr bool is_float8(DType dtype) noexcept { return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2; }

}  // namespace shoal
