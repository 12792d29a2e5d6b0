// Ranks that wait for a slow one while it gets on, and name it where it does not.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/sample_state.h"
#include "comm/fake_process_group.h"
#include "comm/late_ranks.h"
#include "core/file_calls.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace {

using comm::FakeWorld;
using comm::ProcessGroup;
using std::chrono::milliseconds;
using testing::SampleTensor;
using testing::TemporaryDirectory;

constexpr milliseconds kLimit(300);

// Writes to rank 1's shard file of a save, or the removal of shard files, take so long.
class SlowDisk final : public FileCalls {
 public:
  explicit SlowDisk(milliseconds write, int slow_writes = 1 << 30, milliseconds removal = milliseconds(0))
      : write_(write), slow_writes_(slow_writes), removal_(removal) {
    use_file_calls(this);
  }
  ~SlowDisk() override { use_file_calls(nullptr); }

  ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) override {
    const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
    const bool large = bytes > 4096;
    if (large && path.stem().string().ends_with("_rank_00001") && slow_writes_-- > 0)
      std::this_thread::sleep_for(write_);
    return FileCalls::pwrite(descriptor, data, bytes, offset);
  }
  int unlink(const char* path) override {
    if (std::filesystem::path(path).parent_path().filename() == "shards") std::this_thread::sleep_for(removal_);
    return FileCalls::unlink(path);
  }

 private:
  milliseconds write_;
  std::atomic<int> slow_writes_;
  milliseconds removal_;
};

// Of one unit: each rank of 2 has 12 of them, and writes each at once.
std::vector<SampleTensor> tensors() {
  std::vector<SampleTensor> tensors;
  for (int i = 0; i < 24; ++i) tensors.push_back({fmt::format("model/w{}", i), DType::float32, {1 << 16}, "u"});
  return tensors;
}

void save(ProcessGroup& world, const std::filesystem::path& directory, std::initializer_list<int> steps) {
  CheckpointerOptions options;
  options.directory = directory;
  options.keep = 1;
  world.set_timeout(kLimit);
  Checkpointer checkpointer(world, options);
  const StateDict state = testing::blank_state(tensors(), world.rank(), world.size());
  for (const int step : steps) {
    StateDict views;
    views.tensors = state.tensors;
    checkpointer.save(step, std::move(views), testing::kTrainingState);
  }
}

TEST(SlowDisk, ARankThatGetsOnIsWaitedForBeyondTheLimit) {
  const TemporaryDirectory directory(testing::memory_folder());
  const SlowDisk disk(milliseconds(100));
  const Timer timer;
  FakeWorld(2).run([&](ProcessGroup& world) { save(world, directory.path(), {1}); });
  EXPECT_GT(timer.seconds(), 3 * std::chrono::duration<double>(kLimit).count());
  EXPECT_EQ(list_checkpoints(directory.path()).size(), 1u);
}

TEST(SlowDisk, ARankThatDoesNotIsNamedOnAll) {
  const TemporaryDirectory directory(testing::memory_folder());
  const SlowDisk disk(milliseconds(1500), 1);
  std::atomic<int> named = 0;
  FakeWorld(2).run([&](ProcessGroup& world) {
    try {
      save(world, directory.path(), {1});
    } catch (const comm::LateRanksError& error) {
      EXPECT_EQ(error.ranks(), std::vector<int>{1});
      const std::string text = error.what();
      EXPECT_NE(
          text.find("has got no further for 0.3 s in the saving of checkpoint step 1: every rank writes its file"),
          text.npos)
          << text;
      ++named;
    }
  });
  EXPECT_EQ(named, 2);
  EXPECT_TRUE(list_checkpoints(directory.path()).empty());
}

// Deleting the old one is nobody's to wait for but the next save's; that waits, and takes nothing for a leftover.
TEST(SlowDisk, OldCheckpointsAreDeletedInTheBackground) {
  const TemporaryDirectory directory(testing::memory_folder());
  const SlowDisk disk(milliseconds(0), 0, milliseconds(200));
  double seconds = 0;
  ::testing::internal::CaptureStderr();
  FakeWorld(4).run([&](ProcessGroup& world) {
    save(world, directory.path(), {1});
    const Timer timer;
    save(world, directory.path(), {2, 3});
    if (world.rank() == 1) seconds = timer.seconds();  // which deletes nothing itself
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(seconds, 0.8) << "step 3 waits for the deletion of step 1";
  EXPECT_LT(seconds, 1.5) << "that of step 2 is not waited for";
  ASSERT_EQ(list_checkpoints(directory.path()).size(), 1u);
  EXPECT_EQ(list_checkpoints(directory.path())[0].step, 3);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    entries += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(entries, 1);
}

}  // namespace
}  // namespace shoal::checkpoint
