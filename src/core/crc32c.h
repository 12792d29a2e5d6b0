// CRC-32C (Castagnoli, RFC 3720 appendix B.4): crc32c("123456789") == 0xE3069283.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal {

// Pieces in which what is read or written is checked on the way: they stay in a core's own cache in between, where a
// checksum costs next to nothing.
inline constexpr std::int64_t kCacheBytes = 256 << 10;

// Of `bytes` bytes at `data`, going on from `previous` (0 at the start). Any length.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous = 0) noexcept;

// What a part with checksum `crc` adds to that of a whole in which `bytes` bytes follow it: the checksum of the whole
// is the exclusive or of that of all its parts. Time grows with the logarithm of `bytes`.
std::uint32_t crc32c_share(std::uint32_t crc, std::uint64_t bytes) noexcept;

}  // namespace shoal
