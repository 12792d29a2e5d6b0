#include "core/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace shoal {

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
