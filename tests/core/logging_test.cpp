#include "core/logging.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace shoal
