// The name of a file that does not exist yet and is removed at the end.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "hdf5/file.h"

namespace shoal::testing {

class TemporaryFile {
 public:
  TemporaryFile() {
    static std::atomic<int> count = 0;
    const std::string name = "shoal_hdf5_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++) + ".h5";
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove(path_);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }
  // Ends `file` and writes it here.
  void store(hdf5::File& file) const {
    std::ofstream stream(path_, std::ios::binary | std::ios::trunc);
    const std::int64_t size = file.close_into([&](std::int64_t offset, const void* data, std::size_t bytes) {
      stream.seekp(offset);
      stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    });
    stream.close();
    std::filesystem::resize_file(path_, static_cast<std::uintmax_t>(size));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace shoal::testing
