#include "core/logging.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "core/error.h"
#include "core/file_io.h"
#include "support/temporary_folder.h"

namespace shoal {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class Logging : public ::testing::Test {
 protected:
  void TearDown() override {
    log::set_rank(-1);
    log::set_quiet(false);
    log::append_to("");
  }

  static std::string errors_of_rank(int rank) {
    CaptureStderr();
    log::set_rank(rank);
    log::info("step {}", 7);
    log::warning("slow");
    log::error("lost {}", "data");
    return GetCapturedStderr();
  }

  static std::string results_of_rank(int rank) {
    CaptureStdout();
    log::set_rank(rank);
    log::result("loss {:.2f}", 0.5);
    return GetCapturedStdout();
  }
};

TEST_F(Logging, OutsideAJobNoRankIsNamed) {
  EXPECT_EQ(errors_of_rank(-1), "shoal: step 7\nshoal: warning: slow\nshoal: error: lost data\n");
}

TEST_F(Logging, RankZeroSpeaksAtEveryLevel) {
  EXPECT_EQ(errors_of_rank(0), "shoal: step 7\nshoal: warning: rank 0: slow\nshoal: error: rank 0: lost data\n");
}

TEST_F(Logging, OtherRanksOnlyWarn) {
  EXPECT_EQ(errors_of_rank(3), "shoal: warning: rank 3: slow\nshoal: error: rank 3: lost data\n");
}

TEST_F(Logging, QuietHidesInfoAlone) {
  log::set_quiet(true);
  EXPECT_EQ(errors_of_rank(0), "shoal: warning: rank 0: slow\nshoal: error: rank 0: lost data\n");
}

TEST_F(Logging, ResultsAreRankZerosOnStandardOutput) {
  EXPECT_EQ(results_of_rank(-1), "loss 0.50\n");
  EXPECT_EQ(results_of_rank(0), "loss 0.50\n");
  EXPECT_EQ(results_of_rank(1), "");
}

// Of each line what follows the time.
std::string without_times(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all += line.substr(line.find(' ') + 1) + "\n";
  return all;
}

TEST_F(Logging, ARanksFileHasEverythingAndIsAppendedTo) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "rank.log";
  log::append_to("");
  log::set_rank(3);
  log::set_quiet(true);
  CaptureStderr();
  CaptureStdout();
  log::info("before there is a file");
  log::append_to(file);
  log::info("step {}", 7);
  log::warning("slow");
  log::error("lost");
  log::result("loss 0.5");
  log::append_to("");
  log::info("nowhere");
  log::append_to(file);
  log::info("a second time");
  EXPECT_EQ(GetCapturedStderr(), "shoal: warning: rank 3: slow\nshoal: error: rank 3: lost\n");
  EXPECT_EQ(GetCapturedStdout(), "");
  EXPECT_EQ(without_times(read_text_file(file)),
            "info: before there is a file\ninfo: step 7\nwarning: slow\nerror: lost\ninfo: loss 0.5\n"
            "info: nowhere\ninfo: a second time\n");
}

TEST_F(Logging, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(log::append_to("/proc/no/such/folder/rank.log"), IoError);
}

}  // namespace
}  // namespace shoal
