#include "core/error.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace shoal {
namespace {

TEST(Error, CarriesMessageAndExitCode) {
  try {
    SHOAL_CHECK(1 + 1 == 3, CheckpointError, "region {} of '{}' is damaged", 4, "rank_00001.h5");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "region 4 of 'rank_00001.h5' is damaged");
    EXPECT_EQ(error.exit_code(), ExitCode::checkpoint);
  }
}

TEST(Error, ACheckThatHoldsEvaluatesNoMessage) {
  int evaluated = 0;
  const auto costly = [&] { return ++evaluated; };
  SHOAL_CHECK(true, DataError, "{}", costly());
  EXPECT_EQ(evaluated, 0);
}

TEST(Error, AssertNamesTheConditionAndThePlace) {
  try {
    const int ranks = 0;
    SHOAL_ASSERT(ranks >= 1);
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("error_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("'ranks >= 1' does not hold"), std::string::npos) << text;
    EXPECT_EQ(error.exit_code(), ExitCode::internal);
  }
}

TEST(Error, TypesDifferByTheirExitCode) {
  EXPECT_EQ(OptionError("x").exit_code(), ExitCode::usage);
  EXPECT_EQ(DataError("x").exit_code(), ExitCode::data);
  EXPECT_EQ(IoError("x").exit_code(), ExitCode::io);
  EXPECT_EQ(CommunicationError("x").exit_code(), ExitCode::communication);
  EXPECT_EQ(DeviceError("x").exit_code(), ExitCode::device);
  EXPECT_THROW(throw DataError("x"), Error);
}

}  // namespace
}  // namespace shoal
