#include "core/activity.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/process_state.h"
#include "core/timer.h"

namespace shoal {
namespace {

using activity::Operation;
using activity::Slot;

// A slot that a child made by fork() shares with its parent.
class SharedSlot {
 public:
  SharedSlot() : memory_(mmap(nullptr, sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
    slot_ = new (memory_) Slot;
  }
  ~SharedSlot() {
    activity::use_slot(nullptr);
    activity::slot().leaving = activity::kStays;  // what this test said is nothing to the next one
    munmap(memory_, sizeof(Slot));
  }
  SharedSlot(const SharedSlot&) = delete;
  SharedSlot& operator=(const SharedSlot&) = delete;
  Slot* get() const { return slot_; }

 private:
  void* memory_;
  Slot* slot_;
};

// Runs `body` in a process of its own, which stays until this is destroyed.
class Child {
 public:
  template <typename Body>
  explicit Child(Body&& body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      body();
      if (write(ends[1], "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void send(int signal) const { kill(pid_, signal); }
  void reap() { waitpid(std::exchange(pid_, -1), nullptr, 0); }
  void end() {
    if (pid_ <= 0) return;
    send(SIGKILL);
    reap();
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

TEST(Activity, SaysWhereTheProcessIs) {
  activity::begin_step(12);
  activity::begin_micro_step(3);
  activity::name_units(std::vector<std::string>{"(root)", "h.0"});
  activity::enter(Operation::backward, 1);
  const auto seen = activity::read(activity::slot());
  EXPECT_EQ(seen.operation, Operation::backward);
  EXPECT_EQ(seen.unit, 1);
  EXPECT_EQ(seen.unit_name, "h.0");
  EXPECT_EQ(seen.step, 12);
  EXPECT_EQ(seen.micro_step, 3);
  activity::begin_step(13);
  EXPECT_EQ(activity::read(activity::slot()).micro_step, 0);
}

TEST(Activity, AProcessThatHasSaidNothingStarts) {
  const Slot fresh;
  const auto seen = activity::read(fresh);
  EXPECT_EQ(seen.operation, Operation::start);
  EXPECT_EQ(seen.unit, activity::kNoUnit);
  EXPECT_EQ(seen.leaving, activity::kStays);
}

TEST(Activity, EachEntryIsAChangeEvenToTheSamePlace) {
  const auto before = activity::read(activity::slot()).changes;
  activity::enter(Operation::forward, 0);
  activity::enter(Operation::forward, 0);
  activity::progressed();
  EXPECT_EQ(activity::read(activity::slot()).changes, before + 3);
}

TEST(Activity, TheWatchDatesTheLastChange) {
  using namespace std::chrono_literals;
  activity::progressed();
  activity::beat();
  std::this_thread::sleep_for(50ms);
  const Timer beat;
  activity::beat();
  EXPECT_GE(activity::read(activity::slot()).unchanged_seconds, 0.05);
  const double since_beat = activity::seconds_since_beat(activity::slot());
  EXPECT_LE(since_beat, beat.seconds());
  const Timer changed;
  activity::progressed();
  activity::beat();
  const double unchanged = activity::read(activity::slot()).unchanged_seconds;
  EXPECT_LE(unchanged, changed.seconds());
}

TEST(Activity, AnotherOperationForAWhile) {
  activity::enter(Operation::forward, 2);
  {
    const activity::During during(Operation::save);
    EXPECT_EQ(activity::read(activity::slot()).operation, Operation::save);
    EXPECT_EQ(activity::read(activity::slot()).unit, activity::kNoUnit);
  }
  EXPECT_EQ(activity::read(activity::slot()).operation, Operation::forward);
  EXPECT_EQ(activity::read(activity::slot()).unit, 2);
}

TEST(Activity, LongAndManyNamesKeepWhatTellsThemApart) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < Slot::kNames + 10; ++i) names.push_back(std::string(100, 'x') + std::to_string(i));
  activity::name_units(names);
  activity::enter(Operation::forward, 7);
  const std::string name = activity::read(activity::slot()).unit_name;
  EXPECT_EQ(name.size(), Slot::kNameBytes - 1);
  EXPECT_EQ(name.substr(name.size() - 2), "x7");
  activity::enter(Operation::forward, static_cast<std::int32_t>(Slot::kNames) + 5);
  EXPECT_EQ(activity::read(activity::slot()).unit_name, "");
  activity::name_units({});
  activity::enter(Operation::forward, 7);
  EXPECT_EQ(activity::read(activity::slot()).unit_name, "");
}

TEST(Activity, EveryOperationHasAName) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < activity::kOperations; ++i)
    names.emplace_back(activity::text_of(static_cast<Operation>(i)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(std::count(names.begin(), names.end(), "?"), 0);
  EXPECT_STREQ(activity::text_of(Operation::finish), "ending");
  EXPECT_STREQ(activity::text_of(static_cast<Operation>(activity::kOperations)), "?");
}

TEST(Activity, AStoppedProcessIsReadWithoutItsHelp) {
  const SharedSlot shared;
  const Child child([&] {
    activity::slot().rank = 3;
    activity::name_units(std::vector<std::string>{"(root)", "h.6"});
    activity::use_slot(shared.get());
    activity::begin_step(5);
    activity::enter(Operation::save, 1);
  });
  child.send(SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const auto seen = activity::read(*shared.get());
  EXPECT_EQ(seen.rank, 3);
  EXPECT_EQ(seen.process, child.pid());
  EXPECT_EQ(seen.operation, Operation::save);
  EXPECT_EQ(seen.unit_name, "h.6");
  EXPECT_EQ(seen.step, 5);
  EXPECT_EQ(seen.leaving, activity::kStays);
}

TEST(Activity, TheFirstToSayThatItLeavesIsRight) {
  const SharedSlot shared;
  activity::use_slot(shared.get());
  EXPECT_NO_THROW(activity::leave_if_asked());
  activity::leave_with(static_cast<int>(ExitCode::device));
  activity::leave_with(static_cast<int>(ExitCode::internal));
  EXPECT_EQ(activity::read(*shared.get()).leaving, static_cast<int>(ExitCode::device));
  try {
    activity::leave_if_asked();
    FAIL() << "the waits of the main thread go on";
  } catch (const activity::Leaving& leaving) {
    EXPECT_EQ(leaving.exit_code(), ExitCode::device);
  }
}

TEST(Activity, AnOrderlyEndIsNoReasonToLeave) {
  const SharedSlot shared;
  activity::use_slot(shared.get());
  activity::leave_with(0);
  EXPECT_NO_THROW(activity::leave_if_asked());
}

ProcessIdentity identity_of(const Slot& slot) { return {slot.process, slot.process_start, slot.process_space}; }

TEST(ProcessState, IsToldForEachStage) {
  const SharedSlot shared;
  Child child([&] { activity::use_slot(shared.get()); });
  const ProcessIdentity it = identity_of(*shared.get());
  EXPECT_EQ(it.number, child.pid());
  EXPECT_GT(it.start, 0);
  EXPECT_EQ(state_of(it), ProcessState::runs);
  child.send(SIGSTOP);
  ASSERT_EQ(waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  EXPECT_EQ(state_of(it), ProcessState::stopped);
  child.send(SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(state_of(it), ProcessState::ended) << "a zombie runs no more";
  child.reap();
  EXPECT_EQ(state_of(it), ProcessState::ended);
}

TEST(ProcessState, ANumberThatIsUsedAgainIsAnotherProcess) {
  ProcessIdentity self = own_identity();
  EXPECT_EQ(state_of(self), ProcessState::runs);
  self.start -= 1;
  EXPECT_EQ(state_of(self), ProcessState::ended);
  self = own_identity();
  self.space += 1;
  EXPECT_EQ(state_of(self), ProcessState::unknown);
}

// Run with --gtest_also_run_disabled_tests: what a place in the loop costs.
TEST(Activity, DISABLED_Cost) {
  const SharedSlot shared;
  activity::use_slot(shared.get());
  constexpr int kTimes = 50'000'000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) activity::enter(Operation::forward, i & 63);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  std::printf("enter(): %.1f ns\n", took.count() / kTimes);
  EXPECT_EQ(activity::read(*shared.get()).unit, (kTimes - 1) & 63);
}

}  // namespace
}  // namespace shoal
