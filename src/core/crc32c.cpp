#include "core/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

#include "core/crc32c_wide.h"

namespace shoal {
namespace {

// x^8, x^16, x^32, …: for each bit of a number of bytes.
constexpr auto kPowers = [] {
  std::array<std::uint32_t, 64> powers{kCrc32cOne >> 8};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = crc32c_multiply(powers[i - 1], powers[i - 1]);
  return powers;
}();

}  // namespace

std::uint32_t crc32c_share(std::uint32_t crc, std::uint64_t bytes) noexcept {
  // Appending zero bytes multiplies a checksum's remainder by x^(8 * bytes).
  for (std::size_t bit = 0; bytes != 0; ++bit, bytes >>= 1)
    if ((bytes & 1) != 0) crc = crc32c_multiply(crc, kPowers[bit]);
  return crc;
}

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous) noexcept {
  static const Crc32cUpdate wide = wide_crc32c();
  if (wide != nullptr) return ~wide(data, bytes, ~previous);
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
