// A disk on which something happens at the n-th call: the process or the machine stops there, or the call is refused,
// cut short or slow. The calls are counted under a lock in the order in which they come; those of one thread come in
// the same order each time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>

#include "core/file_calls.h"
#include "support/disk_model.h"

namespace shoal::testing {

enum class FileCall { open, close, pwrite, pread, ftruncate, fsync, rename, mkdir, unlink, rmdir };

struct Fault {
  enum class Kind {
    none,
    stop,     // from this call on nothing changes any more; a write that is under way may have got half its way
    kill,     // the process ends by SIGKILL
    fail,     // with `error`, `times` calls
    shorten,  // a write or a read does a part of what it should and says so
    delay,    // by `delay`
  };
  Kind kind = Kind::none;
  std::int64_t at = 0;  // counted from 0, of the calls that `counts` takes
  int error = 0;
  std::int64_t times = 1;
  std::chrono::milliseconds delay{0};
  // Those that change something, unless it is told otherwise.
  std::function<bool(FileCall, const std::filesystem::path&)> counts = [](FileCall call, auto&&) {
    return call != FileCall::pread;
  };
};

// Stands between the file layer and the system while it lives; one at a time. Nothing is synced for real.
class FaultyFiles final : public FileCalls {
 public:
  // `root`: of what is lost without power; an existing directory, absolute.
  FaultyFiles(const std::filesystem::path& root, std::uint64_t seed);
  ~FaultyFiles() override;
  FaultyFiles(const FaultyFiles&) = delete;
  FaultyFiles& operator=(const FaultyFiles&) = delete;

  void plan(Fault fault);  // counts from 0 again; in the place of the one before
  std::int64_t counted() const;
  bool struck() const;  // the fault has come
  // A new process, after a stop. What the old one had written is there.
  void restart();
  // A new process after a loss of power: what was not synced is there in part, or not at all.
  void lose_power();

  int open(const char* path, int flags, mode_t mode) override;
  int close(int descriptor) override;
  ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) override;
  ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset) override;
  int ftruncate(int descriptor, off_t bytes) override;
  int fsync(int descriptor) override;
  int rename(const char* from, const char* to) override;
  int mkdir(const char* path, mode_t mode) override;
  int unlink(const char* path) override;
  int rmdir(const char* path) override;

 private:
  struct Open {
    std::filesystem::path path;
    DiskModel::NodePtr node;  // null outside of the root
  };
  enum class Verdict { go_on, refuse, half };

  Verdict judge(FileCall call, const std::filesystem::path& path);
  Open opened(int descriptor);
  int removed(FileCall call, const char* path);

  mutable std::mutex mutex_;
  DiskModel disk_;
  std::mt19937_64 random_;
  Fault fault_;
  std::int64_t counted_ = 0;
  bool struck_ = false, stopped_ = false;
  std::map<int, Open> open_;
};

}  // namespace shoal::testing
