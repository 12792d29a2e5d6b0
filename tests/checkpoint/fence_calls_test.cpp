// A newer attempt that takes the directory over at any call of an older one's save to the file system.
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "checkpoint/catalog.h"
#include "checkpoint/fence.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "core/file_calls.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::new_attempt;
using testing::restored_step;
using testing::save_sample;
using testing::temporaries_in;
using testing::TemporaryDirectory;

// While it lives, the newer attempt enters before call number `at`.
class TakenOver final : public FileCalls {
 public:
  TakenOver(fs::path directory, int at) : directory_(std::move(directory)), at_(at) { use_file_calls(this); }
  ~TakenOver() override { use_file_calls(nullptr); }
  const std::optional<Fence>& newer() const { return newer_; }

  int open(const char* path, int flags, mode_t mode) override { return here().FileCalls::open(path, flags, mode); }
  ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) override {
    return here().FileCalls::pwrite(descriptor, data, bytes, offset);
  }
  int fsync(int descriptor) override { return here().FileCalls::fsync(descriptor); }
  int rename(const char* from, const char* to) override { return here().FileCalls::rename(from, to); }
  int mkdir(const char* path, mode_t mode) override { return here().FileCalls::mkdir(path, mode); }
  int unlink(const char* path) override { return here().FileCalls::unlink(path); }
  int rmdir(const char* path) override { return here().FileCalls::rmdir(path); }

 private:
  TakenOver& here() {
    thread_local bool is_the_newers_own = false;
    if (is_the_newers_own) return *this;
    const std::lock_guard lock(mutex_);
    if (calls_++ != at_) return *this;
    is_the_newers_own = true;
    newer_ = new_attempt(directory_);
    is_the_newers_own = false;
    return *this;
  }

  fs::path directory_;
  int at_, calls_ = 0;
  std::mutex mutex_;
  std::optional<Fence> newer_;
};

// What the save of an attempt that is taken over at call `at` comes to; nothing where it makes fewer calls.
std::optional<std::string> taken_over_at(int at) {
  const TemporaryDirectory directory;
  const Fence old = new_attempt(directory.path());
  save_sample(directory.path(), 1, 1, {}, old);
  std::string end = "saved";
  {
    const TakenOver files(directory.path(), at);
    try {
      save_sample(directory.path(), 2, 2, {}, old);
    } catch (const SupersededError&) {
      end = "superseded";
    } catch (const std::exception& error) {
      end = error.what();
    }
    if (!files.newer()) return std::nullopt;
    save_sample(directory.path(), 3, 3, {}, files.newer());
  }
  const auto same = [](std::int64_t step) { return static_cast<int>(step); };
  EXPECT_EQ(restored_step(directory.path(), same), 3) << "call " << at;
  for (const CatalogEntry& entry : list_checkpoints(directory.path()))
    EXPECT_EQ(verify(entry.path).problem_count(), 0) << "call " << at << ": " << entry.path;
  EXPECT_EQ(temporaries_in(directory.path()), 0) << "call " << at;
  return end;
}

TEST(Fence, ANewerAttemptMayComeAtAnyCall) {
  int superseded = 0, saved = 0;
  for (int at = 0;; ++at) {
    const std::optional<std::string> end = taken_over_at(at);
    if (!end) break;
    ASSERT_TRUE(*end == "superseded" || *end == "saved") << "call " << at << ": " << *end;
    ++(*end == "saved" ? saved : superseded);
  }
  EXPECT_GT(superseded, 20);
  EXPECT_GT(saved, 0);  // the last calls come after all is done
}

}  // namespace
}  // namespace shoal::checkpoint
