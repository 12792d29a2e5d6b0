#include "formats/byte_source.h"

#include <algorithm>

#include "core/check.h"

namespace shoal::formats {

std::string ByteSource::read(std::uint64_t offset, std::uint64_t count, std::uint64_t limit, const char* what) const {
  SHOAL_CHECK(offset <= bytes && count <= bytes - offset, CheckpointError,
              "{}: {} would be bytes {} to {}, but the file has {}: it is truncated or damaged", path, what, offset,
              offset + std::min(count, UINT64_MAX - offset), bytes);
  SHOAL_CHECK(count <= limit, CheckpointError, "{}: {} at byte {} has {} bytes, where {} are the limit: it is damaged",
              path, what, offset, count, limit);
  std::string text(count, '\0');
  if (count > 0) read_at(offset, text.data(), text.size());
  return text;
}

}  // namespace shoal::formats
