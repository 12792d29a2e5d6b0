// Two attempts on one directory, each a process of its own. The old one is held at every point of a save while the new
// one starts: from then on nothing that it does is seen, and what the new one finds and writes is sound.
#include "checkpoint/fence.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

#include "checkpoint/checkpointer.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "comm/fake_process_group.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::contents_of;
using testing::new_attempt;
using testing::restored_step;
using testing::save_sample;
using testing::status_of_child;
using testing::temporaries_in;
using testing::TemporaryDirectory;

int salt_is_step(std::int64_t step) { return static_cast<int>(step); }

// One byte from process to process.
class Bell {
 public:
  Bell() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Bell() {
    for (const int end : ends_) ::close(end);
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void ring() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void wait() const {
    char byte = 0;
    EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

// The old attempt: holds two checkpoints, saves `step` and stops at `point` until it is told to go on, then tries to
// save another step.
class OldAttempt {
 public:
  OldAttempt(const fs::path& directory, SavePoint point, std::int64_t step, int salt) {
    child_ = ::fork();
    if (child_ == 0) {
      ::alarm(60);
      const int status = status_of_child([&] {
        const Fence fence = new_attempt(directory);
        save_sample(directory, 10, 10, {}, fence);
        save_sample(directory, 20, 20, {}, fence);
        std::atomic<bool> held{false};
        const SaveObserver hold = [&](SavePoint passed) {
          if (passed != point || held.exchange(true)) return;
          here_.ring();
          go_on_.wait();
        };
        save_sample(directory, step, salt, hold, fence);
        save_sample(directory, 40, 40, {}, fence);
      });
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    here_.wait();
  }

  int go_on_to_the_end() {
    go_on_.ring();
    int status = 0;
    ::waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  Bell here_, go_on_;
  pid_t child_ = -1;
};

class OldAttemptIsHeldAt : public ::testing::TestWithParam<SavePoint> {};

TEST_P(OldAttemptIsHeldAt, ANewStep) {
  if (GetParam() == SavePoint::old_displaced) return;  // see TheSameStep
  for (const bool new_one_saves : {false, true}) {
    const TemporaryDirectory directory;
    OldAttempt old(directory.path(), GetParam(), 30, 30);
    const Fence fence = new_attempt(directory.path());
    EXPECT_EQ(temporaries_in(directory.path()), 0);
    EXPECT_EQ(restored_step(directory.path(), salt_is_step), GetParam() >= SavePoint::renamed ? 30 : 20);
    if (new_one_saves) save_sample(directory.path(), 30, 31, {}, fence);
    const auto before = contents_of(directory.path());
    EXPECT_EQ(old.go_on_to_the_end(), static_cast<int>(ExitCode::superseded));
    EXPECT_EQ(contents_of(directory.path()), before);
    EXPECT_NO_THROW(fence.check());
    save_sample(directory.path(), 50, 50, {}, fence);
    EXPECT_EQ(restored_step(directory.path(), salt_is_step), 50);
  }
}

TEST_P(OldAttemptIsHeldAt, TheSameStep) {
  const TemporaryDirectory directory;
  OldAttempt old(directory.path(), GetParam(), 20, 2);
  const Fence fence = new_attempt(directory.path());
  EXPECT_TRUE(fs::exists(directory.path() / step_directory_name(20)));
  const int found = GetParam() >= SavePoint::renamed ? 2 : 20;
  EXPECT_EQ(restored_step(directory.path(), [&](std::int64_t) { return found; }), 20);
  save_sample(directory.path(), 20, 3, {}, fence);
  const auto before = contents_of(directory.path());
  EXPECT_EQ(old.go_on_to_the_end(), static_cast<int>(ExitCode::superseded));
  EXPECT_EQ(contents_of(directory.path()), before);
  EXPECT_EQ(restored_step(directory.path(), [](std::int64_t) { return 3; }), 20);
}

INSTANTIATE_TEST_SUITE_P(, OldAttemptIsHeldAt, ::testing::ValuesIn(testing::all_save_points()));

// What is told of the save's end: the checkpoint that is there, or nothing.
std::optional<fs::path> committed_when_taken_over_at(SavePoint taken_over, const fs::path& directory) {
  std::optional<fs::path> committed;
  const Fence old = new_attempt(directory);
  comm::FakeWorld(testing::kSavingRanks).run([&](comm::ProcessGroup& world) {
    CheckpointerOptions options;
    options.directory = directory;
    options.observer = [&](SavePoint point) {
      if (point == taken_over) new_attempt(directory);
    };
    if (world.rank() == 0) options.fence = old;
    Checkpointer checkpointer(world, options);
    const auto state = testing::sample_state(testing::sample_tensors(), world.rank(), world.size(), 1);
    EXPECT_THROW(checkpointer.save(30, state, testing::kTrainingState), SupersededError);
    const auto& report = checkpointer.committed_despite_error();
    EXPECT_TRUE(world.rank() == 0 || !report);
    if (report) committed = report->path;
  });
  return committed;
}

TEST(TakenOver, AnAttemptKnowsWhatItHasCommitted) {
  const TemporaryDirectory before, after;
  EXPECT_EQ(committed_when_taken_over_at(SavePoint::commit_allowed, before.path()), std::nullopt);
  EXPECT_EQ(committed_when_taken_over_at(SavePoint::renamed, after.path()), after.path() / step_directory_name(30));
  EXPECT_EQ(restored_step(after.path(), [](std::int64_t) { return 1; }), 30);
}

class KilledWhileItStarts : public ::testing::TestWithParam<FencePoint> {};

// Until it has entered, the old attempt goes on; after that, it does not. The next one always starts.
TEST_P(KilledWhileItStarts, TheNextOneTakesOver) {
  const TemporaryDirectory directory;
  const Fence old = new_attempt(directory.path());
  save_sample(directory.path(), 20, 20, {}, old);
  const int save_status = status_of_child([&] {
    save_sample(
        directory.path(), 30, 30,
        [](SavePoint point) {
          if (point == SavePoint::committed) ::raise(SIGKILL);
        },
        old);
  });
  ASSERT_TRUE(testing::was_killed(save_status));
  ASSERT_EQ(temporaries_in(directory.path()), 1);

  const int status = status_of_child([&] {
    const FenceObserver kill = [](FencePoint point) {
      if (point == GetParam()) ::raise(SIGKILL);
    };
    Fence::take(directory.path(), 0, "host killed", kill).enter(kill);
  });
  ASSERT_TRUE(testing::was_killed(status));
  if (GetParam() == FencePoint::number_taken)
    EXPECT_NO_THROW(old.check());
  else
    EXPECT_THROW(old.check(), SupersededError);

  const Fence next = new_attempt(directory.path());
  EXPECT_EQ(next.number(), 3);
  EXPECT_THROW(old.check(), SupersededError);
  EXPECT_EQ(temporaries_in(directory.path()), 0);
  EXPECT_EQ(restored_step(directory.path(), salt_is_step), 20);
  EXPECT_THROW(save_sample(directory.path(), 30, 30, {}, old), SupersededError);
  save_sample(directory.path(), 40, 40, {}, next);
  EXPECT_EQ(restored_step(directory.path(), salt_is_step), 40);
}

INSTANTIATE_TEST_SUITE_P(, KilledWhileItStarts,
                         ::testing::Values(FencePoint::number_taken, FencePoint::entered,
                                           FencePoint::leftover_set_aside, FencePoint::swept));

}  // namespace
}  // namespace shoal::checkpoint
