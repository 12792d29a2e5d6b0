// Conversions of the two 16-bit floating formats, as bit patterns, round-to-nearest-even.
#pragma once

#include <bit>
#include <cstdint>

namespace shoal {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

inline float to_float(BFloat16 x) noexcept { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

inline BFloat16 to_bfloat16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // NaN stays one
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

inline float to_float(Float16 x) noexcept { return static_cast<float>(std::bit_cast<_Float16>(x.bits)); }
inline Float16 to_float16(float x) noexcept { return {std::bit_cast<std::uint16_t>(static_cast<_Float16>(x))}; }

}  // namespace shoal
