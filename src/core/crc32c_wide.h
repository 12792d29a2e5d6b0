// CRC-32C by carry-less multiplications of 512 bits, on processors that have them: so fast on data in a core's own
// cache that a checksum on the way costs nothing beside the copy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal {

// Goes on from `crc`, neither inverted on entry nor on exit.
using Crc32cUpdate = std::uint32_t (*)(const void* data, std::size_t bytes, std::uint32_t crc) noexcept;

// Null where this processor has not what it takes.
Crc32cUpdate wide_crc32c() noexcept;

// Polynomials over GF(2) modulo Castagnoli's, bit-reflected as the checksum is: the highest bit is that of x^0.
inline constexpr std::uint32_t kCrc32cPolynomial = 0x82F63B78, kCrc32cOne = std::uint32_t{1} << 31;

constexpr std::uint32_t crc32c_multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kCrc32cOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? b >> 1 ^ kCrc32cPolynomial : b >> 1;
  }
  return product;
}

}  // namespace shoal
