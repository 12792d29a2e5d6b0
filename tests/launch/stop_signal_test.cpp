#include "launch/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"

namespace shoal::launch {
namespace {

TEST(StopSignal, NotesEachOfItsSignals) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    const StopSignal stop;
    EXPECT_EQ(stop.received(), 0);
    ASSERT_EQ(raise(signal), 0);
    EXPECT_EQ(stop.received(), signal) << signal_name(signal);
  }
}

TEST(StopSignal, KeepsTheFirstSignal) {
  const StopSignal stop;
  raise(SIGUSR1);
  raise(SIGTERM);
  raise(SIGUSR1);
  EXPECT_EQ(stop.received(), SIGUSR1);
}

int g_earlier_handler_ran = 0;
extern "C" void earlier_handler(int) { ++g_earlier_handler_ran; }

TEST(StopSignal, PutsBackWhatWasThere) {
  const auto before = std::signal(SIGUSR2, earlier_handler);
  {
    const StopSignal stop;
    raise(SIGUSR2);
    EXPECT_EQ(g_earlier_handler_ran, 0);
  }
  raise(SIGUSR2);
  EXPECT_EQ(g_earlier_handler_ran, 1);
  std::signal(SIGUSR2, before);
}

TEST(StopSignalDeathTest, CanLeaveThemIgnored) {
  EXPECT_EXIT(
      {
        { const StopSignal stop(StopSignal::Afterwards::ignored); }
        for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) raise(signal);
        _exit(75);
      },
      ::testing::ExitedWithCode(75), "");
  EXPECT_EXIT(
      {
        { const StopSignal stop(StopSignal::Afterwards::ignored); }
        raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalDeathTest, AfterAnExceptionTheyAreNotIgnored) {
  EXPECT_EXIT(
      {
        try {
          const StopSignal stop(StopSignal::Afterwards::ignored);
          throw 1;
        } catch (int) {
        }
        raise(SIGUSR1);
      },
      ::testing::KilledBySignal(SIGUSR1), "");
}

TEST(StopSignal, TakesBackWhatALibraryTook) {
  const StopSignal stop;
  EXPECT_EQ(stop.take_back(), 0);
  std::signal(SIGUSR1, earlier_handler);
  std::signal(SIGTERM, SIG_DFL);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(stop.take_back(), 2);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("SIGUSR1"), std::string::npos) << said;
  EXPECT_NE(said.find("SIGTERM"), std::string::npos) << said;
  raise(SIGUSR1);
  EXPECT_EQ(stop.received(), SIGUSR1);
}

TEST(StopSignalDeathTest, TheSecondInterruptIsNotTakenBack) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        raise(SIGINT);
        if (stop.take_back() != 0) _exit(1);
        raise(SIGINT);
        _exit(0);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignal, OneAtATime) {
  const StopSignal stop;
  EXPECT_THROW(StopSignal{}, InternalError);
  raise(SIGUSR1);
  EXPECT_EQ(stop.received(), SIGUSR1) << "the failed attempt took the handlers away";
}

TEST(StopSignal, InterruptedReadsGoOn) {
  const StopSignal stop;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    usleep(50'000);
    kill(getppid(), SIGUSR1);
    usleep(50'000);
    _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
  }
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(stop.received(), SIGUSR1);
  int status = 0;
  waitpid(child, &status, 0);
}

TEST(StopSignalDeathTest, SecondInterruptKills) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        raise(SIGINT);
        raise(SIGINT);
        _exit(0);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalDeathTest, SecondTerminationDoesNot) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        raise(SIGTERM);
        raise(SIGTERM);
        _exit(stop.received() == SIGTERM ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace shoal::launch
