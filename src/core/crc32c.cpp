#include "core/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace shoal {
namespace {

// Polynomials over GF(2) modulo Castagnoli's, bit-reflected as the checksum is: the highest bit is that of x^0.
constexpr std::uint32_t kPolynomial = 0x82F63B78, kOne = std::uint32_t{1} << 31;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^(8 * bytes): appending so many zero bytes multiplies a checksum's remainder by it.
constexpr std::uint32_t power_of_bytes(std::uint64_t bytes) {
  std::uint32_t power = kOne, square = kOne >> 8;  // x^8
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

}  // namespace

std::uint32_t crc32c_share(std::uint32_t crc, std::uint64_t bytes) noexcept {
  return multiply(power_of_bytes(bytes), crc);
}

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous) noexcept {
  // ISA-L takes an int length and neither inverts on entry nor on exit.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  auto* at = static_cast<unsigned char*>(const_cast<void*>(data));
  std::uint32_t crc = ~previous;
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, kMost);
    crc = crc32_iscsi(at, static_cast<int>(part), crc);
    at += part;
    bytes -= part;
  }
  return ~crc;
}

}  // namespace shoal
