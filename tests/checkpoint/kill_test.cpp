// A job is killed at every point of a save. What a restart finds is the checkpoint before, or the new one from the
// moment on that it has its name; the next save works and leaves no leftovers.
#include <gtest/gtest.h>

#include <csignal>

#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::restored_step;
using testing::save_sample;
using testing::TemporaryDirectory;

// Saves in a child process that dies, by the signal that Slurm ends with, when it comes to `point`. False where the
// save does not come there.
bool killed_at(SavePoint point, const fs::path& directory, std::int64_t step, int salt) {
  return testing::was_killed(testing::status_of_child([&] {
    save_sample(directory, step, salt, [point](SavePoint passed) {
      if (passed == point) ::raise(SIGKILL);
    });
  }));
}

std::size_t entries_in(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

class KillDuringSave : public ::testing::TestWithParam<SavePoint> {};

TEST_P(KillDuringSave, TheCheckpointBeforeOrTheNewOneIsFound) {
  const TemporaryDirectory directory;
  save_sample(directory.path(), 10, 10);
  save_sample(directory.path(), 20, 20);
  const bool killed = killed_at(GetParam(), directory.path(), 30, 30);
  EXPECT_EQ(killed, GetParam() != SavePoint::old_displaced);
  const bool renamed = GetParam() >= SavePoint::renamed || !killed;
  EXPECT_EQ(restored_step(directory.path(), [](std::int64_t step) { return static_cast<int>(step); }),
            renamed ? 30 : 20);

  save_sample(directory.path(), 40, 40);
  EXPECT_EQ(restored_step(directory.path(), [](std::int64_t step) { return static_cast<int>(step); }), 40);
  EXPECT_EQ(entries_in(directory.path()), 3u);  // two checkpoints and `latest`
}

// The step exists already: there is no moment without a sound checkpoint of it.
TEST_P(KillDuringSave, SavingAStepAgain) {
  const TemporaryDirectory directory;
  save_sample(directory.path(), 20, 1);
  const bool killed = killed_at(GetParam(), directory.path(), 20, 2);
  EXPECT_TRUE(killed);
  const int salt = GetParam() >= SavePoint::renamed ? 2 : 1;
  EXPECT_EQ(restored_step(directory.path(), [&](std::int64_t) { return salt; }), 20);

  save_sample(directory.path(), 40, 40);
  EXPECT_EQ(restored_step(directory.path(), [](std::int64_t step) { return static_cast<int>(step); }), 40);
  EXPECT_EQ(entries_in(directory.path()), 3u);
  EXPECT_TRUE(fs::exists(directory.path() / step_directory_name(20)));
}

// The last save was killed between its two renames, and so is the next one.
TEST_P(KillDuringSave, TwiceInARow) {
  const TemporaryDirectory directory;
  save_sample(directory.path(), 20, 1);
  ASSERT_TRUE(killed_at(SavePoint::old_displaced, directory.path(), 20, 2));
  ASSERT_FALSE(fs::exists(directory.path() / step_directory_name(20)));
  EXPECT_TRUE(killed_at(GetParam(), directory.path(), 20, 3));
  const int salt = GetParam() >= SavePoint::renamed ? 3 : 1;
  EXPECT_EQ(restored_step(directory.path(), [&](std::int64_t) { return salt; }), 20);
}

INSTANTIATE_TEST_SUITE_P(, KillDuringSave, ::testing::ValuesIn(testing::all_save_points()));

}  // namespace
}  // namespace shoal::checkpoint
