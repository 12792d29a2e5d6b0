// The system calls by which files and directories change, and by which files are read. All that the file layer
// (file_io.h) does to a disk goes through here, so that a test can stand in between: count the calls, refuse, shorten
// or delay one, and afterwards take away what was never synced.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace shoal {

// As it is, the calls of the system. Each returns, and sets errno, as the call of its name does.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);  // of files to write, and of directories to sync
  virtual int close(int descriptor);
  virtual ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset);
  virtual ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset);
  virtual int ftruncate(int descriptor, off_t bytes);
  virtual int fallocate(int descriptor, off_t bytes);  // from the start of the file, which grows to that size
  virtual int fsync(int descriptor);
  virtual int sync_file_range(int descriptor, off_t offset, off_t bytes, unsigned flags);
  virtual int rename(const char* from, const char* to);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
};

// The system's, unless a test has put others in their place.
FileCalls& file_calls() noexcept;
// Null: the system's again. `calls` must outlive its use; not while another thread writes.
void use_file_calls(FileCalls* calls) noexcept;

}  // namespace shoal
