// The two floating formats of 8 bits that PyTorch and safetensors have (OCP 8-bit floating point specification 1.0), as
// bit patterns. E4M3 ("fn": finite) has no infinities and one NaN; E5M2 is the upper half of a float16.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/half.h"

namespace shoal {

struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

inline float to_float(Float8E5M2 x) noexcept { return to_float(Float16{static_cast<std::uint16_t>(x.bits << 8)}); }

inline float to_float(Float8E4M3 x) noexcept {
  const int exponent = x.bits >> 3 & 0xF, mantissa = x.bits & 7;
  constexpr int kBias = 7, kMantissaBits = 3;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - kBias - kMantissaBits);
  if (exponent == 0xF && mantissa == 7) value = std::numeric_limits<float>::quiet_NaN();
  return (x.bits & 0x80) != 0 ? -value : value;
}

}  // namespace shoal
