// The name of a file that does not exist yet and is removed at the end.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

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

 private:
  std::filesystem::path path_;
};

}  // namespace shoal::testing
