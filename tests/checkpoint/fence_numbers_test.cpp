// The numbers of attempts, and attempts that meet anywhere: whose number is the largest has the directory.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "checkpoint/catalog.h"
#include "checkpoint/fence.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::new_attempt;
using testing::restored_step;
using testing::save_sample;
using testing::status_of_child;
using testing::temporaries_in;
using testing::TemporaryDirectory;

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
