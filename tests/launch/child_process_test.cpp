#include "launch/child_process.h"

#include <gtest/gtest.h>

#include <csignal>

namespace shoal::launch {
namespace {

using namespace std::chrono_literals;

TEST(RunCommand, GivesOutputAndExitCode) {
  const CommandResult result = run_command({"sh", "-c", "echo out; echo err >&2; exit 3"}, 10s);
  EXPECT_TRUE(result.started);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.error, "err\n");
  EXPECT_EQ(result.problem(10s), "exit code 3: err");
  EXPECT_TRUE(run_command({"true"}, 10s).ok());
}

TEST(RunCommand, AbsentPrograms) {
  const CommandResult result = run_command({"shoal-there-is-no-such-program"}, 10s);
  EXPECT_FALSE(result.started);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.problem(10s), "cannot be started: No such file or directory");
}

TEST(RunCommand, WaitsNoLongerThanTheLimit) {
  for (const char* script : {"sleep 60", "exec >&- 2>&-; sleep 60", "sleep 60 & wait", "trap '' TERM; sleep 60"}) {
    const auto start = std::chrono::steady_clock::now();
    const CommandResult result = run_command({"sh", "-c", script}, 300ms);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << script;
    EXPECT_TRUE(result.timed_out) << script;
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.problem(300ms), "did not answer within 0.3 s");
  }
}

TEST(RunCommand, FloodsAreCut) {
  const CommandResult result = run_command({"sh", "-c", "head -c 5000000 /dev/zero"}, 20s);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.output.size(), std::size_t{1} << 20);
}

extern "C" void ignore_it(int) {}

TEST(RunCommand, OurSignalHandlersAreNotTheirs) {
  const auto before = std::signal(SIGTERM, ignore_it);
  EXPECT_EQ(run_command({"sh", "-c", "kill -TERM $$; sleep 60"}, 20s).exit_code, 128 + SIGTERM);
  std::signal(SIGTERM, before);
}

}  // namespace
}  // namespace shoal::launch
