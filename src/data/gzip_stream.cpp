#include "data/gzip_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace shoal::data {

GzipStream::GzipStream(const std::filesystem::path& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
  SHOAL_CHECK(file_ != nullptr, DataError, "cannot open {}: {}", path.string(),
              errno != 0 ? std::strerror(errno) : "out of memory");
  gzbuffer(file_, 1u << 20);
}

GzipStream::~GzipStream() { gzclose(file_); }

std::size_t GzipStream::read(void* into, std::size_t bytes) {
  constexpr std::size_t kLargest = 1u << 30;  // gzread takes an unsigned int
  std::size_t total = 0;
  while (total < bytes) {
    const auto wanted = static_cast<unsigned>(std::min(bytes - total, kLargest));
    const int got = gzread(file_, static_cast<char*>(into) + total, wanted);
    if (got > 0) total += static_cast<std::size_t>(got);
    if (got == static_cast<int>(wanted)) continue;
    // A short read is the end of the file or an error; zlib tells "ended in the middle of the compressed data" only
    // through its state.
    int state = Z_OK;
    const char* message = gzerror(file_, &state);
    if (state == Z_ERRNO) message = std::strerror(errno);
    SHOAL_CHECK(state == Z_OK || state == Z_STREAM_END, DataError, "{}: the file is damaged or cut short ({})",
                path_.string(), message);
    break;
  }
  return total;
}

}  // namespace shoal::data
