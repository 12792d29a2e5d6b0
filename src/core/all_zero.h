// Whether bytes are zero, as a hole of a file is.
#pragma once

#include <cstddef>
#include <cstring>

namespace shoal {

inline bool all_zero(const std::byte* data, std::size_t bytes) noexcept {
  return bytes == 0 || (data[0] == std::byte{0} && std::memcmp(data, data + 1, bytes - 1) == 0);
}

}  // namespace shoal
