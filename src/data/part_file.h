// A file that gets its name when it is complete: until then it is called NAME.<process>.part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "core/unique_handle.h"

namespace shoal::data {

struct DescriptorTraits {
  using Handle = int;
  static int invalid() noexcept { return -1; }
  static void close(int descriptor) noexcept;
};

class PartFile {
 public:
  // All failures, here and below, are IoErrors that name the file and the system's reason.
  explicit PartFile(const std::filesystem::path& path);
  ~PartFile();  // removes what was not committed
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::filesystem::path& path() const { return path_; }  // the name to come
  void write_at(std::int64_t offset, const void* data, std::size_t bytes);
  // `bytes` bytes of `from` at `from_offset` to `offset`.
  void copy_at(std::int64_t offset, const PartFile& from, std::int64_t from_offset, std::int64_t bytes);
  void resize(std::int64_t bytes);
  // On the disk, then under its name, in whose place another file may have been.
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_, part_path_;
  UniqueHandle<DescriptorTraits> descriptor_;
};

}  // namespace shoal::data
