// A file's bytes in memory without a copy: pages come from the disk when they are touched and can be dropped again, so
// that a file larger than the memory costs none of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace shoal::data {

class MappedFile {
 public:
  // Throws DataError where `path` is no regular file that can be read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }
  // Valid as long as this object. Nobody may shorten the file meanwhile: the process would get SIGBUS.
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace shoal::data
