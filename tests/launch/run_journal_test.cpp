#include "launch/run_journal.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "core/error.h"
#include "core/file_io.h"
#include "support/temporary_folder.h"

namespace shoal::launch {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

AttemptRecord whole_record() {
  AttemptRecord record;
  record.attempt = 3;
  record.job = "100_7";
  record.chain = "100";
  record.restart_count = 2;
  record.host = "n1";
  record.process = 4711;
  record.ranks = 8;
  record.started = 1000.5;
  record.start_step = 10;
  record.end_step = 20;
  record.ended = 2000.25;
  record.state = RunState::stopped;
  record.exit_code = 75;
  record.reason = "SIGUSR1 \"quoted\" \xff";
  record.requeued = true;
  record.checkpoint_seconds = 1.5;
  return record;
}

TEST(RunDirectory, NamesAreBuiltHere) {
  const RunDirectory run("/r");
  EXPECT_EQ(run.attempt(1), "/r/attempts/000001.json");
  EXPECT_EQ(run.log(1, 3), "/r/logs/rank-0003.attempt-000001.log");
  EXPECT_EQ(run.log(1234567, 12345), "/r/logs/rank-12345.attempt-1234567.log");
  EXPECT_EQ(run.placement(2), "/r/placement.attempt-000002.json");
  EXPECT_EQ(run.first_failure(2), "/r/first_failure.attempt-000002.json");
}

TEST(RunDirectory, AttemptsAreFound) {
  const TemporaryFolder folder;
  const RunDirectory run(folder.path() / "run");
  EXPECT_TRUE(run.attempts().empty());
  run.make();
  EXPECT_TRUE(run.attempts().empty());
  for (const char* name : {"000007.json", "000002.json", "1000000.json", "000003", "3.json", "000000.json",
                           "000004.json.tmp.host.17", "notes"})
    write_text_file(run.path() / "attempts" / name, "{}");
  EXPECT_EQ(run.attempts(), (std::vector<int>{2, 7, 1000000}));
}

TEST(RunDirectory, OldDraftsGoWithTheNextAttempt) {
  const TemporaryFolder folder;
  const RunDirectory run(folder.path());
  run.make();
  const auto old_draft = run.path() / "status.json.tmp.n1.17", new_draft = run.path() / "status.json.tmp.n1.18";
  const auto old_record = run.path() / "attempts" / "000001.json.tmp.n1.17";
  for (const auto& path : {old_draft, new_draft, old_record, run.status()}) write_text_file(path, "{}");
  for (const auto& path : {old_draft, old_record, run.status()})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  run.make();
  EXPECT_FALSE(fs::exists(old_draft) || fs::exists(old_record));
  EXPECT_TRUE(fs::exists(new_draft)) << "somebody may be about to rename it";
  EXPECT_TRUE(fs::exists(run.status()));
}

TEST(RunRecords, AttemptsComeBack) {
  const AttemptRecord record = whole_record();
  const AttemptRecord read = parse_attempt(format(record), "a.json");
  EXPECT_EQ(read.attempt, 3);
  EXPECT_EQ(read.job, "100_7");
  EXPECT_EQ(read.chain, "100");
  EXPECT_EQ(read.restart_count, 2);
  EXPECT_EQ(read.start_step, 10);
  EXPECT_EQ(read.end_step, 20);
  EXPECT_EQ(read.ended, 2000.25);
  EXPECT_EQ(read.state, RunState::stopped);
  EXPECT_EQ(read.exit_code, 75);
  EXPECT_TRUE(read.requeued);
  EXPECT_EQ(read.checkpoint_seconds, 1.5);
  EXPECT_EQ(read.reason.substr(0, 16), "SIGUSR1 \"quoted\"");
  EXPECT_EQ(parse_attempt(format(AttemptRecord{}), "a.json").start_step, std::nullopt);
}

TEST(RunRecords, FailuresAndStatusComeBack) {
  const FailureRecord failure{
      .attempt = 2, .rank = 3, .host = "n2", .gpu = "", .time = 17, .reason = "no", .exit_code = 6};
  EXPECT_EQ(parse_failure(format(failure), "f").host, "n2");
  RunStatus status;
  status.state = RunState::no_progress;
  status.loss = std::numeric_limits<double>::quiet_NaN();
  status.deadline = 5000;
  const RunStatus read = parse_status(format(status), "s");
  EXPECT_EQ(read.state, RunState::no_progress);
  EXPECT_EQ(read.deadline, 5000);
}

TEST(RunRecords, DamageIsAnErrorWithTheFile) {
  for (const char* text : {"", "[]", "{", "{}", R"({"attempt":"x"})"}) {
    EXPECT_THROW(parse_attempt(text, "a.json"), IoError) << text;
    EXPECT_THROW(parse_status(text, "s.json"), IoError) << text;
    EXPECT_THROW(parse_failure(text, "f.json"), IoError) << text;
  }
  std::string text = format(whole_record());
  text.replace(text.find("stopped"), 7, "flying!");
  try {
    parse_attempt(text, "a.json");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "a.json: 'flying!' is no state of a run");
  }
}

TEST(RunRecords, ADamagedOneDoesNotHideTheOthers) {
  const TemporaryFolder folder;
  const RunDirectory run(folder.path());
  run.make();
  AttemptRecord record = whole_record();
  for (const int number : {1, 3}) {
    record.attempt = number;
    write_text_file(run.attempt(number), format(record));
  }
  write_text_file(run.attempt(2), "");
  const auto records = read_attempts(run);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].attempt, 3);
}

class Journal : public ::testing::Test {
 protected:
  Journal() { run_.make(); }
  RunStatus status() const { return parse_status(read_text_file(run_.status()), "status.json"); }
  AttemptRecord record(int number = 1) const { return parse_attempt(read_text_file(run_.attempt(number)), "record"); }
  RunJournal journal() {
    return RunJournal({run_, 1}, {.job = "7", .host = "n1", .ranks = 4}, [this] { return now_; });
  }

  const TemporaryFolder folder_;
  const RunDirectory run_{folder_.path()};
  double now_ = 100;
};

TEST_F(Journal, TellsTheCourseOfAnAttempt) {
  RunJournal journal = this->journal();
  EXPECT_EQ(record().state, RunState::running);
  EXPECT_EQ(record().start_step, std::nullopt);
  journal.going_on_from(40, 200);
  EXPECT_EQ(record().start_step, 40);
  EXPECT_EQ(status().step, 40);
  EXPECT_EQ(status().total_steps, 200);
  now_ = 103;
  journal.saved("/c/step_00000050", 50, 2.5);
  EXPECT_EQ(record().end_step, 50);
  EXPECT_EQ(record().checkpoint_seconds, 2.5);
  EXPECT_EQ(status().last_checkpoint, "/c/step_00000050");
  EXPECT_EQ(status().last_checkpoint_time, 103);
  journal.ended(75, "SIGTERM");
  EXPECT_EQ(record().state, RunState::stopped);
  EXPECT_EQ(record().exit_code, 75);
  EXPECT_EQ(record().ended, 103);
  EXPECT_EQ(status().state, RunState::stopped);
  journal.ended(1, "an error on the way out");
  EXPECT_EQ(record().exit_code, 75) << "the first end counts";
}

TEST_F(Journal, TheStatusIsWrittenOnceASecondWithTheRateSince) {
  RunJournal journal = this->journal();
  for (int step = 1; step <= 9; ++step) {
    now_ += 0.1;
    journal.stepped({.step = step, .samples = 32, .seconds = 0.1});
  }
  EXPECT_EQ(status().step, 0);
  now_ += 0.2;
  journal.stepped({.step = 10, .loss = 0.5, .samples = 32, .seconds = 0.1});
  EXPECT_EQ(status().step, 10);
  EXPECT_NEAR(status().samples_per_second, 320, 1e-9);
  EXPECT_NEAR(status().seconds_per_step, 0.1, 1e-9);
  now_ = 50;  // somebody set the clock back
  journal.stepped({.step = 11, .samples = 32, .seconds = 0.2});
  EXPECT_EQ(status().step, 11);
}

TEST_F(Journal, NoAttemptsRecordIsOverwritten) {
  this->journal().ended(75, "SIGTERM");
  EXPECT_THROW(this->journal(), IoError);
  EXPECT_EQ(record().reason, "SIGTERM");
}

TEST_F(Journal, LeavesNothingHalfWritten) {
  RunJournal journal = this->journal();
  journal.ended(0, "done");
  for (const auto& entry : fs::recursive_directory_iterator(run_.path()))
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
}

TEST_F(Journal, WithoutTheDirectoryTrainingGoesOn) {
  RunJournal journal = this->journal();
  fs::remove_all(run_.path());
  now_ += 10;
  EXPECT_NO_THROW(journal.stepped({.step = 1, .samples = 1, .seconds = 1}));
  EXPECT_NO_THROW(journal.saved("/c/step_00000001", 1, 1));
  EXPECT_NO_THROW(journal.ended(0, "done"));
  EXPECT_THROW(this->journal(), IoError) << "but none starts";
}

TEST_F(Journal, RequestsAreSeenOnceASecondAndSaveGoes) {
  RequestFiles requests(run_, [this] { return now_; });
  requests.look();
  write_text_file(run_.save_request(), "");
  write_text_file(run_.stop_request(), "");
  requests.look();
  EXPECT_FALSE(requests.save() || requests.stop()) << "a second has not passed";
  now_ += 1;
  requests.look();
  EXPECT_TRUE(requests.save());
  EXPECT_TRUE(requests.stop());
  requests.saved();
  EXPECT_FALSE(requests.save());
  EXPECT_FALSE(fs::exists(run_.save_request()));
  EXPECT_TRUE(fs::exists(run_.stop_request())) << "it stops the later links of a chain as well";
  now_ += 1;
  requests.look();
  EXPECT_FALSE(requests.save());
}

}  // namespace
}  // namespace shoal::launch
