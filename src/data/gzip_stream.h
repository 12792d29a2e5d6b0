// Reading a file that may be compressed by gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

struct gzFile_s;

namespace shoal::data {

class GzipStream {
 public:
  // Throws DataError where the file cannot be opened.
  explicit GzipStream(const std::filesystem::path& path);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // Up to `bytes` bytes of the decompressed contents; fewer only at their end. Throws DataError where the compressed
  // data are damaged or end too early.
  std::size_t read(void* into, std::size_t bytes);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  gzFile_s* file_;
};

}  // namespace shoal::data
