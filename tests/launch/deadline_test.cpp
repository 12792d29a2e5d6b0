// Time limits with a clock that the tests turn, and a squeue that the tests are.
#include "launch/deadline.h"

#include <gtest/gtest.h>

#include "core/logging.h"

namespace shoal::launch {
namespace {

using Words = std::vector<std::string>;

CommandRunner squeue_says(const std::string& output, Words* asked = nullptr) {
  return [=](const Words& command, std::chrono::milliseconds) {
    if (asked != nullptr) *asked = command;
    return CommandResult{.started = true, .exit_code = 0, .output = output};
  };
}

CommandResult never_asked(const Words& command, std::chrono::milliseconds) {
  ADD_FAILURE() << command.at(0) << " was called";
  return {};
}

TEST(TimeBudget, SlurmsEndTimeNeedsNoQuestion) {
  const TimeBudget budget = find_time_budget({.slurm_end_time = 5000, .job = "7"}, 1000, never_asked);
  EXPECT_EQ(budget.end, 5000);
  EXPECT_EQ(budget.source, "SLURM_JOB_END_TIME");
}

TEST(TimeBudget, OutsideOfSlurmNobodyIsAsked) { EXPECT_EQ(find_time_budget({}, 1000, never_asked).end, std::nullopt); }

TEST(TimeBudget, SqueueIsAskedByTheNameOfTheTask) {
  Words asked;
  const TimeBudget budget = find_time_budget({.job = "100_7"}, 1000, squeue_says("1:00:10\n", &asked));
  EXPECT_EQ(asked, (Words{"squeue", "-h", "-j", "100_7", "-o", "%L"}));
  EXPECT_EQ(budget.end, 1000 + 3610);
}

TEST(TimeBudget, AnEndTimeThatIsOverIsNotBelieved) {
  EXPECT_EQ(find_time_budget({.slurm_end_time = 900, .job = "7"}, 1000, squeue_says("2:00")).end, 1120);
}

TEST(TimeBudget, OfAHeterogeneousJobTheComponentThatEndsFirstCounts) {
  const auto end = [](const std::string& squeue, std::optional<std::int64_t> variable = {}) {
    return find_time_budget({.slurm_end_time = variable, .job = "7", .heterogeneous = true}, 1000, squeue_says(squeue))
        .end;
  };
  EXPECT_EQ(end("9:59\n9:59\n"), 1599);
  EXPECT_EQ(end("1:00:00\n30:00\n45:00\n"), 1000 + 1800);
  EXPECT_EQ(end("UNLIMITED\n2:00\n"), 1120);
  EXPECT_EQ(end("UNLIMITED\nUNLIMITED\n"), std::nullopt);
  EXPECT_EQ(end(""), std::nullopt);
  EXPECT_EQ(end("30:00\nNOT_SET\n"), std::nullopt) << "what is not understood may be the earlier one";
  EXPECT_EQ(end("30:00\n45:00\n", 1500), 1500) << "the variable is that of one component";
  EXPECT_EQ(end("30:00\n45:00\n", 9000), 1000 + 1800);
  EXPECT_EQ(end("", 9000), 9000) << "squeue gave no answer";
}

TEST(TimeBudget, WithoutAnAnswerThereIsALine) {
  const auto said = [](const CommandRunner& run) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(find_time_budget({.job = "7"}, 1000, run).end, std::nullopt);
    return ::testing::internal::GetCapturedStderr();
  };
  const auto absent = [](const Words& command, std::chrono::milliseconds limit) {
    EXPECT_EQ(command.at(0), "squeue");
    return run_command({"/nonexistent/squeue"}, limit);
  };
  EXPECT_NE(
      said(absent).find("no time limit is known from Slurm: squeue -h -j 7 -o %L: cannot be started: No such file"),
      std::string::npos);
  EXPECT_NE(said(squeue_says("UNLIMITED\n")).find("no time limit, says squeue"), std::string::npos);
  EXPECT_NE(said(squeue_says("NOT_SET")).find("'NOT_SET' is no time"), std::string::npos);
  EXPECT_NE(said(squeue_says("1:00\n2:00\n")).find("is no time"), std::string::npos) << "of a whole array";
  const auto fails = [](const Words&, std::chrono::milliseconds) {
    return CommandResult{.started = true, .exit_code = 1, .error = "slurm_load_jobs error: Invalid job id specified\n"};
  };
  EXPECT_NE(said(fails).find("exit code 1: slurm_load_jobs error: Invalid job id specified"), std::string::npos);
}

TEST(TimeBudget, TheEarlierOfSlurmAndTheOptionCounts) {
  EXPECT_EQ(
      find_time_budget({.slurm_end_time = 5000, .job = "7", .time_limit = 600, .started = 990}, 1000, never_asked).end,
      1590);
  EXPECT_EQ(
      find_time_budget({.slurm_end_time = 1500, .job = "7", .time_limit = 600, .started = 990}, 1000, never_asked).end,
      1500);
  EXPECT_EQ(find_time_budget({.time_limit = 600, .started = 990}, 1000, never_asked).end, 1590);
}

TEST(Durations, TheNinetyFifthPercentile) {
  Durations durations;
  EXPECT_EQ(durations.p95(), 0);
  durations.add(3);
  EXPECT_EQ(durations.p95(), 3);
  for (int i = 1; i <= 99; ++i) durations.add(i / 100.0);
  EXPECT_DOUBLE_EQ(durations.p95(), 0.95) << "one slow one of a hundred does not count";
  Durations few;
  for (int i = 1; i <= 10; ++i) few.add(i);
  EXPECT_EQ(few.p95(), 10);
  for (int i = 0; i < 256; ++i) few.add(1);
  EXPECT_EQ(few.p95(), 1) << "what is long ago does not count";
}

TEST(Deadline, StopsWhenOnlyTheSavingStillFits) {
  double now = 0;
  Deadline deadline(1000, 60, 30, [&] { return now; });
  EXPECT_EQ(deadline.needed({}), 90) << "nothing is measured: what was expected of a checkpoint, and the margin";
  deadline.step_took(5);
  deadline.checkpoint_took(40);
  EXPECT_EQ(deadline.needed({}), 105);
  EXPECT_EQ(deadline.needed({.seconds = 3, .checkpoint = true}), 148);
  now = 894;
  EXPECT_FALSE(deadline.due({}));
  EXPECT_TRUE(deadline.due({.seconds = 2})) << "a validation would come first";
  EXPECT_TRUE(deadline.due({.checkpoint = true})) << "it is saved now, or twice";
  now = 895;
  EXPECT_TRUE(deadline.due({}));
  now = 2000;
  EXPECT_TRUE(deadline.due({}));
}

// A whole run: steps of 7 s, a checkpoint of 20 s every ten steps. It must be saved before the end, and not stop a step
// too early.
TEST(Deadline, ARunEndsInTimeAndNotTooEarly) {
  for (const double end : {300.0, 500.0, 777.0, 1234.0}) {
    double now = 0;
    Deadline deadline(end, 10, 20, [&] { return now; });
    for (int step = 1;; ++step) {
      now += 7;
      deadline.step_took(7);
      const bool saves = step % 10 == 0;
      if (deadline.due({.checkpoint = saves})) break;
      if (!saves) continue;
      now += 20;
      deadline.checkpoint_took(20);
    }
    const double saved = now + 20;
    EXPECT_LE(saved, end - 10 + 1e-9);
    EXPECT_GT(saved + 7 + 20 + 7, end - 10) << "another step, with a checkpoint due after it, would have fitted";
  }
}

}  // namespace
}  // namespace shoal::launch
