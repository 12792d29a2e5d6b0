#include "launch/run_overview.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/file_io.h"
#include "support/temporary_folder.h"

namespace shoal::launch {
namespace {

class Overview : public ::testing::Test {
 protected:
  Overview() { run_.make(); }
  void write(const AttemptRecord& record) const { write_text_file(run_.attempt(record.attempt), format(record)); }
  void write(const RunStatus& status) const { write_text_file(run_.status(), format(status)); }
  void write(const FailureRecord& failure) const {
    write_text_file(run_.first_failure(failure.attempt), format(failure));
  }
  RunOverview look(double now, std::optional<double> stale_after = {}) const {
    return look_at_run(folder_.path(), {.now = now, .stale_after = stale_after});
  }

  const testing::TemporaryFolder folder_;
  const RunDirectory run_{folder_.path() / "run"};
};

RunStatus running(int attempt) {
  RunStatus status;
  status.attempt = attempt;
  status.phase = "training";
  status.step = 40;
  status.total_steps = 100;
  status.seconds_per_step = 2;
  status.updated = 1000;
  return status;
}

AttemptRecord attempt(int number, RunState state = RunState::running) {
  AttemptRecord record;
  record.attempt = number;
  record.started = 900;
  record.state = state;
  return record;
}

// It may mean other things by the same words: nothing is told of it.
TEST_F(Overview, OneOfANewerVersionIsRefused) {
  write(attempt(1));
  EXPECT_NE(read_text_file(run_.attempt(1)).find("\"version\": 1"), std::string::npos);
  write_text_file(run_.attempt(2), R"({"version": 2, "attempt": 2})");
  EXPECT_EQ(read_attempts(run_).size(), 1) << "which a job that starts goes on without";
  try {
    look(1000);
    FAIL() << "no error";
  } catch (const NewerVersionError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::io);
    EXPECT_NE(std::string(error.what()).find("000002.json was written by a newer version of Shoal"), std::string::npos)
        << error.what();
  }
}

TEST_F(Overview, ARunningOneHasARestToGo) {
  write(attempt(1));
  write(running(1));
  const RunOverview run = look(1010);
  EXPECT_EQ(run.state, "running");
  EXPECT_EQ(run.why, "");
  EXPECT_EQ(run.seconds_left, 120);
  EXPECT_EQ(look_at_run(run_.path(), {.now = 1010}).state, "running") << "the run directory itself";
}

TEST_F(Overview, SilenceMakesItStale) {
  write(attempt(1));
  write(running(1));
  EXPECT_EQ(look(1119).state, "running");
  EXPECT_EQ(look(1121).state, "stale");
  EXPECT_NE(look(1121).why.find("no word for 121 s"), std::string::npos);
  EXPECT_EQ(look(1121).seconds_left, std::nullopt);
  EXPECT_EQ(look(1121, 300).state, "running");
  EXPECT_EQ(look(1031, 30).state, "stale");
  RunStatus slow = running(1);
  slow.seconds_per_step = 60;
  write(slow);
  EXPECT_EQ(look(1599).state, "running") << "ten of its steps";
  EXPECT_EQ(look(1601).state, "stale");
}

TEST_F(Overview, AFailureOfAnyRankIsTheState) {
  write(attempt(2));
  write(running(2));
  write(FailureRecord{.attempt = 1, .rank = 5, .host = "n1", .reason = "long ago", .exit_code = 1});
  write(attempt(1, RunState::failed));
  EXPECT_EQ(look(1010).state, "running") << "of an earlier attempt";
  write(FailureRecord{.attempt = 2, .rank = 3, .host = "n2", .reason = "lost data", .exit_code = 6});
  const RunOverview run = look(1010);
  EXPECT_EQ(run.state, "failed");
  EXPECT_EQ(run.why, "lost data");
  ASSERT_EQ(run.failures.size(), 2u);
  EXPECT_EQ(run.failures[1].rank, 3);
}

TEST_F(Overview, HowItEnded) {
  AttemptRecord record = attempt(1, RunState::stopped);
  record.requeued = true;
  write(record);
  RunStatus status = running(1);
  status.state = RunState::stopped;
  status.phase = "SIGUSR1";
  write(status);
  EXPECT_EQ(look(99999).state, "stopped");
  EXPECT_EQ(look(99999).why, "SIGUSR1; put back into Slurm's queue");
  status.state = RunState::finished;
  write(status);
  EXPECT_EQ(look(99999).state, "finished");
  EXPECT_EQ(look(99999).why, "");
}

// A newer attempt that ended, or was killed, before it could write a status.
TEST_F(Overview, TheNewestAttemptCounts) {
  RunStatus status = running(1);
  status.state = RunState::stopped;
  write(status);
  write(attempt(1, RunState::stopped));
  AttemptRecord refused = attempt(2, RunState::no_progress);
  refused.reason = "no further";
  write(refused);
  EXPECT_EQ(look(1000).state, "no_progress");
  EXPECT_EQ(look(1000).why, "no further");
  write(attempt(3));
  EXPECT_EQ(look(1000).state, "running");
  EXPECT_EQ(look(1100).state, "stale");
}

TEST_F(Overview, DamagedRecordsAreLeftOut) {
  write(attempt(1, RunState::stopped));
  write_text_file(run_.status(), "{");
  write_text_file(run_.first_failure(1), "");
  EXPECT_EQ(look(1000).state, "stopped");
  write_text_file(run_.attempt(1), "");
  EXPECT_THROW(look(1000), IoError);
}

TEST_F(Overview, WhatIsNoRunDirectoryIsAnError) {
  EXPECT_THROW(look(1000), IoError) << "nothing was written yet";
  EXPECT_THROW(look_at_run(folder_.path() / "absent", {}), IoError);
}

}  // namespace
}  // namespace shoal::launch
