#include "core/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace shoal {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected: bit 31 is x^0
constexpr std::uint32_t kOne = std::uint32_t{1} << 31;

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b & 1) ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

}  // namespace

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

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) noexcept {
  std::uint32_t shift = kOne, square = kOne >> 8;  // x^8: one byte
  for (; second_bytes > 0; second_bytes >>= 1, square = multiply(square, square))
    if (second_bytes & 1) shift = multiply(square, shift);
  return multiply(shift, first) ^ second;
}

}  // namespace shoal
