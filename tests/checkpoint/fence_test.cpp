// Two attempts on one directory, each a process of its own. The old one is held at every point of a save while the new
// one starts: from then on nothing that it does is seen, and what the new one finds and writes is sound.
#include "checkpoint/fence.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::contents_of;
using testing::restored_step;
using testing::save_sample;
using testing::status_of_child;
using testing::TemporaryDirectory;

Fence new_attempt(const fs::path& directory) {
  Fence fence = Fence::take(directory, 0, "host new");
  fence.enter();
  return fence;
}

int salt_is_step(std::int64_t step) { return static_cast<int>(step); }

bool is_temporary(const fs::path& path) {
  const auto name = parse_step_directory_name(path.filename().string());
  return name && name->kind == DirectoryKind::temporary;
}

std::int64_t temporaries_in(const fs::path& directory) {
  return std::count_if(fs::directory_iterator(directory), fs::directory_iterator(),
                       [](const auto& entry) { return is_temporary(entry.path()); });
}

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

// The machine went down before the file had its text.
TEST(Fence, AnEmptyFileOfAnotherCounts) {
  const TemporaryDirectory directory;
  const Fence old = new_attempt(directory.path());
  write_text_file(directory.path() / kAttemptFolder / attempt_file_name(7, false), "");
  EXPECT_NO_THROW(old.check());
  write_text_file(directory.path() / kAttemptFolder / attempt_file_name(7, true), "");
  EXPECT_THROW(old.check(), SupersededError);
  EXPECT_EQ(new_attempt(directory.path()).number(), 8);
}

TEST(Fence, ANumberAboveThoseOfTheRunDirectory) {
  const TemporaryDirectory directory;
  EXPECT_EQ(Fence::take(directory.path(), 5, "host a").number(), 6);
  EXPECT_EQ(Fence::take(directory.path(), 5, "host a").number(), 7);
  EXPECT_EQ(Fence::take(directory.path(), 100, "host a").number(), 101);
}

void enter_if_newest(const Fence& fence) {
  try {
    fence.enter();
  } catch (const SupersededError&) {
  }
}

TEST(Fence, NobodyHasANumberTwice) {
  const TemporaryDirectory directory;
  constexpr int kThreads = 6, kEach = 5;
  std::vector<std::thread> starters;
  for (int i = 0; i < kThreads; ++i)
    starters.emplace_back([&, i] {
      for (int n = 0; n < kEach; ++n) {
        const Fence fence = Fence::take(directory.path(), 0, "host a");
        write_text_file(directory.path() / fmt::format("{}_of_{}_{}", fence.number(), i, n), "");
        if (n % 2 == 0) enter_if_newest(fence);
      }
    });
  for (std::thread& starter : starters) starter.join();
  std::set<std::string> numbers;
  for (const auto& entry : fs::directory_iterator(directory.path()))
    if (entry.is_regular_file()) {
      const std::string name = entry.path().filename().string();
      numbers.insert(name.substr(0, name.find('_')));
    }
  EXPECT_EQ(numbers.size(), static_cast<std::size_t>(kThreads * kEach));
}

TEST(Fence, OfTwoThatEnterTheNewerStays) {
  const TemporaryDirectory directory;
  const Fence first = Fence::take(directory.path(), 0, "host a"), second = Fence::take(directory.path(), 0, "host b");
  second.enter();
  EXPECT_THROW(first.enter(), SupersededError);
  EXPECT_NO_THROW(second.check());
  try {
    first.check();
    FAIL();
  } catch (const SupersededError& error) {
    EXPECT_NE(std::string(error.what()).find("attempt 1 is superseded: attempt 2 (host b)"), std::string::npos)
        << error.what();
  }
}

// An attempt that saves until it is superseded, or thirty times. Its process; the salt of what it saves is its number.
pid_t attempt_that_saves(const fs::path& directory) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(100);
  const int status = status_of_child([&] {
    const Fence fence = new_attempt(directory);
    for (std::int64_t i = 1; i <= 30; ++i) save_sample(directory, 1000 * fence.number() + i, fence.number(), {}, fence);
  });
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

// They meet wherever it happens: only the newest comes to its end, and what is there at last is its own, and sound.
TEST(Fence, ManyAttemptsAtOnce) {
  const TemporaryDirectory directory;
  std::vector<pid_t> attempts;
  for (int i = 0; i < 6; ++i) {
    attempts.push_back(attempt_that_saves(directory.path()));
    std::this_thread::sleep_for(std::chrono::milliseconds(40 + 37 * i));
  }
  int finished = 0;
  for (const pid_t attempt : attempts) {
    int status = 0;
    ::waitpid(attempt, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    finished += WEXITSTATUS(status) == 0;
    EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == static_cast<int>(ExitCode::superseded))
        << WEXITSTATUS(status);
  }
  EXPECT_GE(finished, 1);
  const auto entries = list_checkpoints(directory.path());
  ASSERT_EQ(entries.size(), 2u);
  for (const CatalogEntry& entry : entries) EXPECT_EQ(verify(entry.path).problem_count(), 0) << entry.path;
  const auto number_of = [](std::int64_t step) { return static_cast<int>(step / 1000); };
  EXPECT_EQ(restored_step(directory.path(), number_of), 6030);
  EXPECT_EQ(temporaries_in(directory.path()), 0);
}

// Somebody removed everything and started anew, from attempt 1.
TEST(Fence, AnEmptiedDirectoryIsNoLongerOurs) {
  const TemporaryDirectory directory;
  Fence::take(directory.path(), 0, "host a");
  const Fence old = new_attempt(directory.path());
  fs::remove_all(directory.path() / kAttemptFolder);
  EXPECT_THROW(old.check(), SupersededError);
  Fence::take(directory.path(), 1, "host b");
  EXPECT_THROW(old.check(), SupersededError) << "the number is the same, the attempt is another";
}

// A process that was stopped for long removes nothing of those that came after it.
TEST(Fence, OldAttemptsDoNotSweepNewerOnes) {
  const TemporaryDirectory directory;
  const fs::path newer = directory.path() / temporary_directory_name(30, 9, make_checkpoint_id());
  const fs::path unfenced = directory.path() / temporary_directory_name(30, 0, make_checkpoint_id());
  fs::create_directories(newer);
  fs::create_directories(unfenced);
  save_sample(directory.path(), 20, 20, {}, new_attempt(directory.path()));
  EXPECT_TRUE(fs::exists(newer));
  EXPECT_FALSE(fs::exists(unfenced));
}

}  // namespace
}  // namespace shoal::checkpoint
