// CRC-32C (Castagnoli, RFC 3720 appendix B.4): crc32c("123456789") == 0xE3069283.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal {

// Of `bytes` bytes at `data`, going on from `previous` (0 at the start). Any length.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous = 0) noexcept;

// Of two pieces that lie one after the other, from their own checksums: `second` is that of the last `second_bytes`.
// As zlib's crc32_combine() does it, by multiplication with x^(8 * second_bytes) modulo the polynomial.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) noexcept;

}  // namespace shoal
