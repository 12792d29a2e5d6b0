#include "formats/stored_tensor.h"

#include <limits>

namespace shoal::formats {

std::optional<std::int64_t> bytes_of(DType dtype, const std::vector<std::int64_t>& shape) {
  constexpr std::size_t kMostDimensions = 64;
  if (shape.size() > kMostDimensions) return std::nullopt;
  std::int64_t bytes = size_of(dtype);
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      empty = true;
    } else {
      if (bytes > std::numeric_limits<std::int64_t>::max() / extent) return std::nullopt;
      bytes *= extent;
    }
  }
  return empty ? 0 : bytes;
}

}  // namespace shoal::formats
