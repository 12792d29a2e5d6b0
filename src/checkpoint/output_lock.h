// One tool at a time makes an output: whoever holds OUTPUT.lock, by flock(2). The system lets go of it when the process
// ends, however it ends.
#pragma once

#include <filesystem>

#include "core/file_io.h"

namespace shoal::checkpoint {

std::filesystem::path lock_path(const std::filesystem::path& output);  // whether or not `output` ends in '/'

class OutputLock {
 public:
  // OptionError that names process and host where another one has it. On a file system without locks it is not held,
  // which is said.
  explicit OutputLock(const std::filesystem::path& output);
  ~OutputLock();  // removes the file
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  bool try_to_hold();
  void note_holder();

  std::filesystem::path path_;
  Descriptor descriptor_;
};

}  // namespace shoal::checkpoint
