// Directories, links, clocks, locks and limits as users have them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "checkpoint/catalog.h"
#include "checkpoint/export.h"
#include "checkpoint/file_names.h"
#include "checkpoint/numbered_saves.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/shard_writer.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::restore_numbered;
using testing::save_numbered;
using testing::TemporaryDirectory;

class Surroundings : public ::testing::Test {
 protected:
  void save(const fs::path& directory, int number) {
    const auto outcome = save_numbered(directory, 2, number, number);
    EXPECT_TRUE(outcome.saved) << outcome.error;
  }
  int found(const fs::path& directory) {
    const auto restored = restore_numbered(directory, 3);
    return restored ? restored->number : -1;
  }

  TemporaryDirectory folder_;
  fs::path directory_ = folder_.path() / "ckpt";
};

// In a process without the rights of root, for whom nothing is read-only.
TEST_F(Surroundings, ReadOnlyDirectory) {
  save(directory_, 1);
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                                  fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec);
  const auto as_somebody = [&](const std::function<void()>& body) {
    return testing::status_of_child([&] {
      constexpr uid_t kNobody = 65534;
      if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) throw std::runtime_error("setresuid");
      body();
    });
  };
  EXPECT_EQ(as_somebody([&] {
              const auto outcome = save_numbered(directory_, 2, 2, 2);
              const bool named = outcome.error.find("--checkpoint-dir " + directory_.string() +
                                                    " cannot be written: "
                                                    "Permission denied") != std::string::npos;
              if (outcome.saved || outcome.code != ExitCode::io || !named) throw std::runtime_error(outcome.error);
            }),
            0);
  EXPECT_EQ(as_somebody([&] {
              if (verify(directory_ / "step_00000001").problem_count() > 0) throw std::runtime_error("not readable");
            }),
            0);
  fs::permissions(directory_, fs::perms::owner_all);
  EXPECT_EQ(found(directory_), 1);
}

TEST_F(Surroundings, LinkToTheDirectory) {
  fs::create_directories(folder_.path() / "real");
  fs::create_directory_symlink(folder_.path() / "real", directory_);
  for (const int number : {1, 2, 3}) save(directory_, number);
  EXPECT_EQ(found(directory_), 3);
  EXPECT_EQ(found(folder_.path() / "real"), 3);
  EXPECT_EQ(list_checkpoints(directory_).size(), 2u);
  testing::expect_settled(directory_);
}

// A checkpoint that lies elsewhere is read through its link. What is pruned is the link.
TEST_F(Surroundings, LinkToACheckpoint) {
  save(folder_.path() / "elsewhere", 1);
  fs::create_directories(directory_);
  const fs::path real = folder_.path() / "elsewhere" / "step_00000001";
  fs::create_directory_symlink(real, directory_ / "step_00000001");
  EXPECT_EQ(found(directory_), 1);
  for (const int number : {2, 3, 4}) save(directory_, number);
  EXPECT_FALSE(fs::exists(fs::symlink_status(directory_ / "step_00000001")));
  EXPECT_EQ(verify(real).problem_count(), 0);
}

TEST_F(Surroundings, RenamedAndMovedCheckpoints) {
  save(directory_, 7);
  fs::rename(directory_, folder_.path() / "moved");
  EXPECT_EQ(found(folder_.path() / "moved"), 7);
  fs::rename(folder_.path() / "moved" / "step_00000007", folder_.path() / "best");
  EXPECT_EQ(verify(resolve_checkpoint(folder_.path() / "best")).problem_count(), 0);
  // Under a name of another step: what it holds is what the manifest says.
  fs::create_directories(directory_);
  fs::rename(folder_.path() / "best", directory_ / "step_00000009");
  const auto restored = restore_numbered(directory_, 1);
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->step, 7);
}

// Nothing goes by the time: neither that of the files nor that in the manifest.
TEST_F(Surroundings, ClockThatGoesBack) {
  for (const int number : {5, 6}) save(directory_, number);
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(100'000);
  for (const auto& entry : fs::recursive_directory_iterator(directory_ / "step_00000006"))
    fs::last_write_time(entry.path(), long_ago);
  fs::last_write_time(directory_ / "step_00000006", long_ago);
  EXPECT_EQ(found(directory_), 6);
  save(directory_, 4);  // of a run that went back
  EXPECT_EQ(found(directory_), 4);
  EXPECT_FALSE(fs::exists(directory_ / "step_00000005"));
}

TEST_F(Surroundings, ShardOfAnotherStepUnderTheSameId) {
  save(directory_, 1);
  const fs::path checkpoint = directory_ / "step_00000001";
  const Manifest manifest = read_manifest(checkpoint);
  const StateDict state = testing::sample_state(testing::sample_tensors(), 0, 2, 1);
  const ShardFile written = testing::write_shard(checkpoint, {manifest.id, 2, 0, 2, 2}, state);
  // As long as the one in its place, so that only what is in it tells.
  fs::resize_file(checkpoint / written.name, static_cast<std::uintmax_t>(written.bytes));
  Manifest with_size = manifest;
  with_size.files[0].bytes = written.bytes;
  try {
    ShardReader reader(checkpoint, with_size, 0);
    FAIL() << "it was taken";
  } catch (const CheckpointError& error) {
    for (const char* part : {" is of step 2 and ", "the manifest says step 1 and "})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(Surroundings, SuperfluousFilesInACheckpoint) {
  save(directory_, 1);
  const fs::path shards = directory_ / "step_00000001" / kShardFolder;
  fs::copy_file(fs::directory_iterator(shards)->path(), shards / "copy of a shard.h5");
  EXPECT_EQ(found(directory_), 1);
  EXPECT_EQ(verify(directory_ / "step_00000001").problem_count(), 0);
}

// HDF5's own locks are off: somebody who holds one, or a file system that refuses them, is in nobody's way.
TEST_F(Surroundings, ForeignLocks) {
  ::unsetenv("HDF5_USE_FILE_LOCKING");
  save(directory_, 1);
  std::vector<Descriptor> locked;
  for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
    if (!entry.is_regular_file()) continue;
    locked.emplace_back(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(locked.back().get(), LOCK_EX | LOCK_NB), 0);
  }
  EXPECT_GE(locked.size(), 4u);
  EXPECT_EQ(found(directory_), 1);
  EXPECT_EQ(verify(directory_ / "step_00000001").problem_count(), 0);
  const fs::path output = folder_.path() / "whole.h5";
  export_checkpoint({.checkpoint = directory_ / "step_00000001", .output = output});
  EXPECT_TRUE(fs::exists(output));
  save(directory_, 2);
  EXPECT_EQ(found(directory_), 2);
}

// In a process that may have `more` files open than it has now. It ends with 0, or with the exit code for files and an
// error that tells of the limit.
int status_within_limit(std::size_t more, const std::function<void()>& body) {
  return testing::status_of_child([&] {
    const Descriptor lowest(::dup(STDOUT_FILENO));
    const rlim_t most = static_cast<rlim_t>(lowest.get()) + 1 + more;
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("setrlimit");
    try {
      body();
    } catch (const std::exception& error) {
      const bool tells = std::string(error.what()).find("'ulimit -n'") != std::string::npos;
      if (!tells) std::printf("%zu: %s\n", more, error.what());
      if (!tells) std::fflush(stdout);
      if (!tells) throw std::runtime_error("another error");
      throw;
    }
  });
}

// How many more it takes until `body` succeeds; before that, each failure is the one that tells of the limit.
std::size_t needed_descriptors(const std::function<void()>& body) {
  for (std::size_t more = 0; more < 64; ++more) {
    const int status = status_within_limit(more, body);
    if (status == 0) return more;
    EXPECT_TRUE(WIFEXITED(status)) << more;
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::io)) << more << " descriptors";
    if (WEXITSTATUS(status) != static_cast<int>(ExitCode::io)) break;
  }
  return 1000;
}

TEST_F(Surroundings, FewOpenFiles) {
  const testing::QuietErrors quiet;
  const fs::path checkpoint = testing::write_sample(directory_, 1, 40, 1);  // 40 files
  const auto within = [&](const char* what, std::size_t most, const std::function<void()>& body) {
    const std::size_t needed = needed_descriptors(body);
    EXPECT_LE(needed, most) << what;
    std::printf("%s: %zu descriptors\n", what, needed);
  };
  within("verify", 8, [&] {
    const VerifyReport report = verify(checkpoint);
    if (report.problem_count() > 0) throw std::runtime_error("not damaged");
  });
  within("consolidate", 12,
         [&] { export_checkpoint({.checkpoint = checkpoint, .output = folder_.path() / "whole.h5", .force = true}); });
  within("restore", 12, [&] { testing::restored_step(directory_, [](std::int64_t) { return 1; }); });
  within("save", 12, [&] { testing::save_sample(folder_.path() / "other", 2, 2); });
  EXPECT_EQ(verify(checkpoint).problem_count(), 0);
}

}  // namespace
}  // namespace shoal::checkpoint
