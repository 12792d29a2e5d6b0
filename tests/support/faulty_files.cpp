#include "support/faulty_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <thread>

namespace shoal::testing {

namespace fs = std::filesystem;
using Lock = std::lock_guard<std::mutex>;

FaultyFiles::FaultyFiles(const fs::path& root, std::uint64_t seed) : disk_(root), random_(seed) {
  use_file_calls(this);
}

FaultyFiles::~FaultyFiles() { use_file_calls(nullptr); }

void FaultyFiles::plan(Fault fault) {
  const Lock lock(mutex_);
  fault_ = std::move(fault);
  counted_ = 0;
  struck_ = false;
}

std::int64_t FaultyFiles::counted() const {
  const Lock lock(mutex_);
  return counted_;
}

bool FaultyFiles::struck() const {
  const Lock lock(mutex_);
  return struck_;
}

void FaultyFiles::restart() {
  const Lock lock(mutex_);
  stopped_ = false;
  fault_ = {};
  open_.clear();
}

void FaultyFiles::lose_power() {
  restart();
  const Lock lock(mutex_);
  disk_.lose_power(random_);
}

// Where the call is refused, errno says why.
FaultyFiles::Verdict FaultyFiles::judge(FileCall call, const fs::path& path) {
  std::chrono::milliseconds delay{0};
  {
    const Lock lock(mutex_);
    errno = EIO;
    if (stopped_ && call != FileCall::pread) return Verdict::refuse;
    if (fault_.kind == Fault::Kind::none || !fault_.counts(call, path)) return Verdict::go_on;
    const std::int64_t number = counted_++;
    const std::int64_t times = fault_.kind == Fault::Kind::fail ? fault_.times : 1;
    if (number < fault_.at || number - fault_.at >= times) return Verdict::go_on;
    struck_ = true;
    switch (fault_.kind) {
      case Fault::Kind::stop: stopped_ = true; return random_() % 2 ? Verdict::half : Verdict::refuse;
      case Fault::Kind::kill: ::raise(SIGKILL); break;
      case Fault::Kind::fail: errno = fault_.error; return Verdict::refuse;
      case Fault::Kind::shorten: return Verdict::half;
      case Fault::Kind::delay: delay = fault_.delay; break;
      case Fault::Kind::none: break;
    }
  }
  std::this_thread::sleep_for(delay);  // the others go on
  return Verdict::go_on;
}

FaultyFiles::Open FaultyFiles::opened(int descriptor) {
  const Lock lock(mutex_);
  return open_[descriptor];
}

int FaultyFiles::open(const char* path, int flags, mode_t mode) {
  if (judge(FileCall::open, path) == Verdict::refuse) return -1;
  const Lock lock(mutex_);
  const int descriptor = FileCalls::open(path, flags, mode);
  if (descriptor < 0) return descriptor;
  DiskModel::NodePtr node = disk_.find(path);
  if (!node && (flags & O_CREAT) != 0) node = disk_.make(path, false);
  if (node && (flags & O_TRUNC) != 0) DiskModel::resize(*node, 0);
  open_[descriptor] = {path, node};
  return descriptor;
}

// The descriptor is gone whatever the call says, as with Linux.
int FaultyFiles::close(int descriptor) {
  const bool refused = judge(FileCall::close, opened(descriptor).path) == Verdict::refuse;
  const int error = errno;
  const Lock lock(mutex_);
  open_.erase(descriptor);
  const int result = FileCalls::close(descriptor);
  if (refused) errno = error;
  return refused ? -1 : result;
}

ssize_t FaultyFiles::pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  const Open file = opened(descriptor);
  const Verdict verdict = judge(FileCall::pwrite, file.path);
  if (verdict == Verdict::refuse) return -1;
  const Lock lock(mutex_);
  const std::size_t part = verdict == Verdict::half ? (bytes + 1) / 2 : bytes;
  const ssize_t written = FileCalls::pwrite(descriptor, data, part, offset);
  if (written > 0 && file.node)
    DiskModel::write(*file.node, offset, {static_cast<const char*>(data), static_cast<std::size_t>(written)});
  return written;
}

ssize_t FaultyFiles::pread(int descriptor, void* data, std::size_t bytes, off_t offset) {
  std::error_code unknown;  // files to read are not opened here
  const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), unknown);
  const Verdict verdict = judge(FileCall::pread, path);
  if (verdict == Verdict::refuse) return -1;
  return FileCalls::pread(descriptor, data, verdict == Verdict::half ? (bytes + 1) / 2 : bytes, offset);
}

int FaultyFiles::ftruncate(int descriptor, off_t bytes) {
  const Open file = opened(descriptor);
  if (judge(FileCall::ftruncate, file.path) == Verdict::refuse) return -1;
  const Lock lock(mutex_);
  if (file.node) DiskModel::resize(*file.node, bytes);
  return FileCalls::ftruncate(descriptor, bytes);
}

int FaultyFiles::fsync(int descriptor) {
  const Open file = opened(descriptor);
  if (judge(FileCall::fsync, file.path) == Verdict::refuse) return -1;
  const Lock lock(mutex_);
  if (file.node) DiskModel::sync(*file.node);
  return 0;
}

int FaultyFiles::rename(const char* from, const char* to) {
  if (judge(FileCall::rename, to) == Verdict::refuse) return -1;
  const Lock lock(mutex_);
  const int result = FileCalls::rename(from, to);
  if (result == 0 && disk_.find(from)) disk_.rename(from, to);
  return result;
}

int FaultyFiles::mkdir(const char* path, mode_t mode) {
  if (judge(FileCall::mkdir, path) == Verdict::refuse) return -1;
  const Lock lock(mutex_);
  const int result = FileCalls::mkdir(path, mode);
  if (result == 0) disk_.make(path, true);
  return result;
}

int FaultyFiles::removed(FileCall call, const char* path) {
  if (judge(call, path) == Verdict::refuse) return -1;
  const Lock lock(mutex_);
  const int result = call == FileCall::unlink ? FileCalls::unlink(path) : FileCalls::rmdir(path);
  if (result == 0) disk_.remove(path);
  return result;
}

int FaultyFiles::unlink(const char* path) { return removed(FileCall::unlink, path); }
int FaultyFiles::rmdir(const char* path) { return removed(FileCall::rmdir, path); }

}  // namespace shoal::testing
