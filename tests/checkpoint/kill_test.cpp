// A job is killed at every point of a save. What a restart finds is the checkpoint before, or the new one from the
// moment on that it has its name; the next save works and leaves no leftovers.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "comm/fake_process_group.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using comm::FakeWorld;
using comm::ProcessGroup;
using testing::TemporaryDirectory;

constexpr int kRanks = 2;

void save(const fs::path& directory, std::int64_t step, int salt, const SaveObserver& observer = {}) {
  FakeWorld(kRanks).run([&](ProcessGroup& world) {
    CheckpointerOptions options;
    options.directory = directory;
    options.keep = 2;
    options.observer = observer;
    const StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), kRanks, salt);
    Checkpointer(world, options).save(step, state, testing::kTrainingState);
  });
}

// The step that a restart on three ranks finds, and whether every element is that of `salt_of(step)`.
std::int64_t restored_step(const fs::path& directory, const std::function<int(std::int64_t)>& salt_of) {
  std::int64_t step = -1;
  FakeWorld(3).run([&](ProcessGroup& world) {
    StateDict state = testing::blank_state(testing::sample_tensors(), world.rank(), 3);
    const auto restored = Checkpointer(world, {directory, 2, {}}).restore(state, "auto");
    ASSERT_TRUE(restored);
    const int salt = salt_of(restored->step);
    EXPECT_TRUE(testing::same_elements(state, testing::sample_state(testing::sample_tensors(), world.rank(), 3, salt)));
    if (world.rank() == 0) step = restored->step;
  });
  return step;
}

// Saves in a child process that dies, by the signal that Slurm ends with, when it comes to `point`. False where the
// save does not come there.
bool killed_at(SavePoint point, const fs::path& directory, std::int64_t step, int salt) {
  const pid_t child = ::fork();
  if (child == 0) {
    save(directory, step, salt, [point](SavePoint passed) {
      if (passed == point) ::raise(SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

std::size_t entries_in(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

std::vector<SavePoint> all_points() {
  std::vector<SavePoint> points;
  for (int i = 0; i <= static_cast<int>(SavePoint::finished); ++i) points.push_back(static_cast<SavePoint>(i));
  return points;
}

class KillDuringSave : public ::testing::TestWithParam<SavePoint> {};

TEST_P(KillDuringSave, TheCheckpointBeforeOrTheNewOneIsFound) {
  const TemporaryDirectory directory;
  save(directory.path(), 10, 10);
  save(directory.path(), 20, 20);
  const bool killed = killed_at(GetParam(), directory.path(), 30, 30);
  EXPECT_EQ(killed, GetParam() != SavePoint::old_displaced);
  const bool renamed = GetParam() >= SavePoint::renamed || !killed;
  EXPECT_EQ(restored_step(directory.path(), [](std::int64_t step) { return static_cast<int>(step); }),
            renamed ? 30 : 20);

  save(directory.path(), 40, 40);
  EXPECT_EQ(restored_step(directory.path(), [](std::int64_t step) { return static_cast<int>(step); }), 40);
  EXPECT_EQ(entries_in(directory.path()), 3u);  // two checkpoints and `latest`
}

// The step exists already: there is no moment without a sound checkpoint of it.
TEST_P(KillDuringSave, SavingAStepAgain) {
  const TemporaryDirectory directory;
  save(directory.path(), 20, 1);
  const bool killed = killed_at(GetParam(), directory.path(), 20, 2);
  EXPECT_TRUE(killed);
  const int salt = GetParam() >= SavePoint::renamed ? 2 : 1;
  EXPECT_EQ(restored_step(directory.path(), [&](std::int64_t) { return salt; }), 20);

  save(directory.path(), 40, 40);
  EXPECT_EQ(restored_step(directory.path(), [](std::int64_t step) { return static_cast<int>(step); }), 40);
  EXPECT_EQ(entries_in(directory.path()), 3u);
  EXPECT_TRUE(fs::exists(directory.path() / step_directory_name(20)));
}

// The last save was killed between its two renames, and so is the next one.
TEST_P(KillDuringSave, TwiceInARow) {
  const TemporaryDirectory directory;
  save(directory.path(), 20, 1);
  ASSERT_TRUE(killed_at(SavePoint::old_displaced, directory.path(), 20, 2));
  ASSERT_FALSE(fs::exists(directory.path() / step_directory_name(20)));
  EXPECT_TRUE(killed_at(GetParam(), directory.path(), 20, 3));
  const int salt = GetParam() >= SavePoint::renamed ? 3 : 1;
  EXPECT_EQ(restored_step(directory.path(), [&](std::int64_t) { return salt; }), 20);
}

INSTANTIATE_TEST_SUITE_P(, KillDuringSave, ::testing::ValuesIn(all_points()));

}  // namespace
}  // namespace shoal::checkpoint
