#include "launch/slurm_time.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace shoal::launch {
namespace {

// The six forms that sbatch's manual names for --time, and how squeue prints %L.
TEST(SlurmTime, EveryFormOfTheManual) {
  EXPECT_EQ(parse_slurm_time("5"), 300);
  EXPECT_EQ(parse_slurm_time("90"), 5400);
  EXPECT_EQ(parse_slurm_time("5:30"), 330);
  EXPECT_EQ(parse_slurm_time("0:34"), 34);
  EXPECT_EQ(parse_slurm_time("1:02:03"), 3723);
  EXPECT_EQ(parse_slurm_time("23:59:59"), 86399);
  EXPECT_EQ(parse_slurm_time("2-3"), (2 * 24 + 3) * 3600);
  EXPECT_EQ(parse_slurm_time("2-3:04"), ((2 * 24 + 3) * 60 + 4) * 60);
  EXPECT_EQ(parse_slurm_time("1-00:00:00"), 86400);
  EXPECT_EQ(parse_slurm_time("365-23:59:59"), 365LL * 86400 + 86399);
  EXPECT_EQ(parse_slurm_time("0"), 0);
  EXPECT_EQ(parse_slurm_time("0:00"), 0);
}

TEST(SlurmTime, NoLimit) {
  for (const char* text : {"UNLIMITED", "unlimited", "infinite", "INFINITE", "-1"})
    EXPECT_EQ(parse_slurm_time(text), std::nullopt) << text;
}

TEST(SlurmTime, EverythingElseIsAnError) {
  for (const char* text :
       {"",     " ",      "NOT_SET", "INVALID", "N/A",  "5m", "5:", ":5", "1:2:3:4", "-",           "-5",
        "1-",   "-1:00",  "1--2",    "1-2-3",   "1:-2", "+5", "5 ", " 5", "1.5",     "99999999999", "1-99999999999:00",
        "0x10", "1:2:3\n"}) {
    try {
      parse_slurm_time(text);
      FAIL() << "'" << text << "' was taken";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shoal::launch
