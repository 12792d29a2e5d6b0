#include "launch/requeue.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace shoal::launch {
namespace {

using Records = std::vector<AttemptRecord>;

AttemptRecord attempt(int number, const std::string& chain, std::optional<std::int64_t> start_step,
                      bool requeued = false) {
  AttemptRecord record;
  record.attempt = number;
  record.job = record.chain = chain;
  record.start_step = start_step;
  record.requeued = requeued;
  return record;
}

TEST(RequeuePolicy, TakesTheWordsOfItsOption) {
  EXPECT_FALSE(RequeuePolicy::parse("never").any());
  EXPECT_TRUE(RequeuePolicy::parse("on-signal").on_signal);
  EXPECT_FALSE(RequeuePolicy::parse("on-signal").on_deadline);
  EXPECT_TRUE(RequeuePolicy::parse("on-deadline").on_deadline);
  const RequeuePolicy both = RequeuePolicy::parse("on-deadline,on-signal");
  EXPECT_TRUE(both.on_signal && both.on_deadline);
  for (const char* text : {"", "always", "on-signal,", ",", "never,on-signal", "on-signal on-deadline"})
    EXPECT_THROW(RequeuePolicy::parse(text), OptionError) << text;
}

TEST(Requeue, CountsThoseOfThisJobAlone) {
  const Records records{attempt(1, "7", 0, true), attempt(2, "8", 0, true), attempt(3, "7", 9, true),
                        attempt(4, "7", 20, false)};
  EXPECT_EQ(requeues_of(records, "7"), 2);
  EXPECT_EQ(requeues_of(records, "9"), 0);
}

TEST(Progress, AttemptsThatWereKilledBeforeACheckpoint) {
  const Records records{attempt(1, "7", 0), attempt(2, "7", 100), attempt(3, "7", 100), attempt(4, "7", {})};
  EXPECT_EQ(attempts_without_progress(records, "7", 5, 100), 3) << "2 and 3 went on from 100, 4 came not even there";
  EXPECT_EQ(attempts_without_progress(records, "7", 5, 101), 1);
  EXPECT_EQ(attempts_without_progress(records, "7", 4, 100), 2) << "the attempt itself does not count";
  EXPECT_EQ(attempts_without_progress(records, "8", 5, 100), 0) << "a new submission";
  EXPECT_EQ(attempts_without_progress({}, "7", 1, 0), 0);
}

TEST(Progress, GoingBackToAnOlderCheckpointIsNone) {
  EXPECT_EQ(attempts_without_progress({attempt(1, "7", 100), attempt(2, "7", 90)}, "7", 3, 80), 2);
}

TEST(Progress, AnotherJobInBetweenEndsTheRow) {
  const Records records{attempt(1, "7", 50), attempt(2, "7", 50), attempt(3, "8", 50), attempt(4, "7", 50)};
  EXPECT_EQ(attempts_without_progress(records, "7", 5, 50), 1);
}

TEST(Progress, TooManyAreAnErrorOfItsOwn) {
  const Records records{attempt(1, "7", 50), attempt(2, "7", 50), attempt(3, "7", 50)};
  EXPECT_NO_THROW(check_progress(records, "7", 4, 50, 4));
  EXPECT_NO_THROW(check_progress(records, "7", 4, 50, 0)) << "switched off";
  EXPECT_NO_THROW(check_progress(records, "7", 4, 51, 3));
  EXPECT_NO_THROW(check_progress({attempt(1, "", 0), attempt(2, "", 0), attempt(3, "", 0)}, "", 4, 0, 3))
      << "people who start it by hand";
  try {
    check_progress(records, "7", 4, 50, 3);
    FAIL();
  } catch (const NoProgressError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::no_progress);
    EXPECT_NE(std::string(error.what()).find("last 3 attempts of job 7 came no further than step 50"),
              std::string::npos)
        << error.what();
  }
}

using Words = std::vector<std::string>;

// A Slurm in which the job is in `state`.
CommandRunner slurm_with(const std::string& state, std::vector<Words>& asked) {
  return [state, &asked](const Words& command, std::chrono::milliseconds) {
    asked.push_back(command);
    return CommandResult{.started = true, .exit_code = 0, .output = command[0] == "squeue" ? state : ""};
  };
}

TEST(Requeue, ThroughScontrolByTheNameOfTheTask) {
  std::vector<Words> asked;
  std::string state;
  EXPECT_TRUE(requeue({.address = "100_7"}, slurm_with("RUNNING\n", asked), state));
  EXPECT_EQ(asked, (std::vector<Words>{{"squeue", "-h", "-j", "100_7", "-o", "%T"}, {"scontrol", "requeue", "100_7"}}));
}

TEST(Requeue, AJobThatIsBeingCancelledStaysSo) {
  for (const std::string now : {"COMPLETING\n", "CANCELLED", ""}) {
    std::vector<Words> asked;
    std::string state;
    EXPECT_FALSE(requeue({.address = "7"}, slurm_with(now, asked), state));
    EXPECT_EQ(asked.size(), 1u);
    EXPECT_EQ(state, now.substr(0, now.find('\n')));
  }
}

TEST(Requeue, AFailureIsAnErrorWithScontrolsWords) {
  const auto refuses = [](const Words& command, std::chrono::milliseconds) {
    if (command[0] == "squeue") return CommandResult{.started = true, .exit_code = 0, .output = "RUNNING\n"};
    return CommandResult{.started = true, .exit_code = 1, .error = "Requested operation is presently disabled\n"};
  };
  const auto absent = [](const Words&, std::chrono::milliseconds limit) {
    return run_command({"/nonexistent/squeue"}, limit);
  };
  const auto text_of_error = [](const CommandRunner& run) {
    std::string state;
    try {
      requeue({.address = "7"}, run, state);
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(text_of_error(refuses).find("scontrol requeue 7: exit code 1: Requested operation is presently disabled;"),
            0u);
  EXPECT_EQ(text_of_error(absent).find("squeue -h -j 7 -o %T: cannot be started: No such file or directory;"), 0u);
}

}  // namespace
}  // namespace shoal::launch
