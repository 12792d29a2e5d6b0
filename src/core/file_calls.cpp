#include "core/file_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace shoal {
namespace {

FileCalls system_calls;
std::atomic<FileCalls*> current{&system_calls};

}  // namespace

int FileCalls::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
int FileCalls::close(int descriptor) { return ::close(descriptor); }
ssize_t FileCalls::pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  return ::pwrite(descriptor, data, bytes, offset);
}
ssize_t FileCalls::pread(int descriptor, void* data, std::size_t bytes, off_t offset) {
  return ::pread(descriptor, data, bytes, offset);
}
int FileCalls::ftruncate(int descriptor, off_t bytes) { return ::ftruncate(descriptor, bytes); }
int FileCalls::fallocate(int descriptor, off_t bytes) { return ::fallocate(descriptor, 0, 0, bytes); }
int FileCalls::fsync(int descriptor) { return ::fsync(descriptor); }
int FileCalls::sync_file_range(int descriptor, off_t offset, off_t bytes, unsigned flags) {
  return ::sync_file_range(descriptor, offset, bytes, flags);
}
int FileCalls::rename(const char* from, const char* to) { return std::rename(from, to); }
int FileCalls::mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }
int FileCalls::unlink(const char* path) { return ::unlink(path); }
int FileCalls::rmdir(const char* path) { return ::rmdir(path); }

FileCalls& file_calls() noexcept { return *current.load(std::memory_order_relaxed); }

void use_file_calls(FileCalls* calls) noexcept { current.store(calls == nullptr ? &system_calls : calls); }

}  // namespace shoal
