// A save that cannot write: the same error on all ranks, nothing left of the attempt, nothing lost.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <mutex>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/verify.h"
#include "comm/fake_process_group.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using comm::FakeWorld;
using comm::ProcessGroup;
using testing::SampleTensor;
using testing::TemporaryDirectory;

constexpr int kRanks = 3;

std::vector<SampleTensor> tensors_of(std::int64_t elements) {
  return {{"model/w", DType::float32, {elements}, "u"}, {"model/b", DType::float32, {5}, "u"}};
}

// The text of the IoError that all ranks throw; empty where the save succeeds.
std::string save(const fs::path& directory, std::int64_t step, std::int64_t elements,
                 const std::function<SaveObserver(int rank)>& observer = {}) {
  std::mutex mutex;
  std::vector<std::string> texts;
  FakeWorld(kRanks).run([&](ProcessGroup& world) {
    const StateDict state = testing::sample_state(tensors_of(elements), world.rank(), kRanks, 1);
    Checkpointer checkpointer(world,
                              {.directory = directory, .observer = observer ? observer(world.rank()) : SaveObserver()});
    try {
      checkpointer.save(step, state, testing::kTrainingState);
    } catch (const IoError& error) {
      const std::lock_guard lock(mutex);
      texts.emplace_back(error.what());
    }
  });
  if (texts.empty()) return "";
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(kRanks));
  for (const std::string& text : texts) EXPECT_EQ(text, texts.front());
  return texts.front();
}

void expect_one_sound_checkpoint(const fs::path& directory, std::int64_t step) {
  const auto entries = list_checkpoints(directory);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].step, step);
  EXPECT_EQ(verify(entries[0].path).problem_count(), 0);
  const auto names = std::distance(fs::directory_iterator(directory), fs::directory_iterator());
  EXPECT_EQ(names, 2);  // the checkpoint and `latest`
}

TEST(DiskFull, AFailureAtAnyPointBeforeTheRenameLeavesNothing) {
  for (int i = 0; i <= static_cast<int>(SavePoint::committed); ++i) {
    const auto point = static_cast<SavePoint>(i);
    const bool everywhere = point >= SavePoint::shard_created && point <= SavePoint::shard_synced;
    if (point == SavePoint::attempt_made) continue;
    const TemporaryDirectory directory;
    ASSERT_EQ(save(directory.path(), 1, 1000), "");
    const std::string text = save(directory.path(), 2, 1000, [&](int rank) -> SaveObserver {
      if (rank != (everywhere ? 1 : 0)) return {};
      return [point](SavePoint passed) {
        if (passed == point) throw IoError("cannot write SHARD: No space left on device");
      };
    });
    EXPECT_NE(text.find("No space left on device"), std::string::npos) << i;
    EXPECT_EQ(text.find("rank 1: ") == 0, everywhere) << text;
    expect_one_sound_checkpoint(directory.path(), 1);
  }
}

// A file system of 1 MiB of our own, where the system lets us.
class SmallDisk {
 public:
  SmallDisk() { mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=1m,nr_inodes=64") == 0; }
  ~SmallDisk() {
    if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  fs::path path() const { return directory_.path() / "ckpt"; }

 private:
  TemporaryDirectory directory_;
  bool mounted_ = false;
};

TEST(DiskFull, RealOne) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs needs root and its capabilities";
  ASSERT_EQ(save(disk.path(), 1, 1000), "");
  const std::string text = save(disk.path(), 2, 400'000);
  EXPECT_EQ(text.find("rank "), 0u) << text;
  EXPECT_NE(text.find("No space left on device; free some space"), std::string::npos) << text;
  expect_one_sound_checkpoint(disk.path(), 1);
  EXPECT_EQ(save(disk.path(), 3, 1000), "");
}

// The disk is so full that HDF5 cannot write its structure, or the manifest has no room: fills up in steps.
TEST(DiskFull, RealOneAtEveryByteOfTheEnd) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs needs root and its capabilities";
  ASSERT_EQ(save(disk.path(), 1, 1000), "");
  const fs::path ballast = disk.path().parent_path() / "ballast";
  int failures = 0;
  for (std::int64_t free_pages = 0; free_pages < 24; ++free_pages) {
    fs::remove(ballast);
    const auto available = static_cast<std::int64_t>(fs::space(disk.path()).available);
    const std::string filling(static_cast<std::size_t>(available - free_pages * 4096), 'x');
    write_text_file(ballast, filling);
    if (save(disk.path(), 2, 1000).empty()) break;
    ++failures;
    expect_one_sound_checkpoint(disk.path(), 1);
  }
  EXPECT_GT(failures, 3);
  EXPECT_LT(failures, 24);
  EXPECT_EQ(verify(resolve_checkpoint(disk.path())).problem_count(), 0);
}

TEST(DiskFull, FileSizeLimit) {
  const TemporaryDirectory directory;
  ASSERT_EQ(save(directory.path(), 1, 1000), "");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{1000}, rlim_t{200'000}}) {
    const rlimit small{limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string text = save(directory.path(), 2, 400'000);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_NE(text.find("File too large"), std::string::npos) << text;
    expect_one_sound_checkpoint(directory.path(), 1);
  }
  std::signal(SIGXFSZ, old_handler);
}

}  // namespace
}  // namespace shoal::checkpoint
