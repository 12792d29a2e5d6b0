#include "optim/schedule.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace shoal::optim {
namespace {

TEST(Schedule, ConstantKeepsTheRate) {
  const Schedule schedule = Schedule::parse("constant");
  EXPECT_EQ(schedule.learning_rate(0.25, 0), 0.25);
  EXPECT_EQ(schedule.learning_rate(0.25, 1000), 0.25);
}

// torch.optim.lr_scheduler.StepLR multiplies the rate it has; pow() would differ in the last bit.
TEST(Schedule, StepIsTheChainedFormOfStepLr) {
  const Schedule schedule = Schedule::parse("step:2:0.7");
  double expected = 1.0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    if (epoch > 0 && epoch % 2 == 0) expected *= 0.7;
    EXPECT_EQ(schedule.learning_rate(1.0, epoch), expected) << "epoch " << epoch;
  }
}

TEST(Schedule, FarEpochsAreCheap) {
  EXPECT_EQ(Schedule::parse("step:1:0.5").learning_rate(1.0, std::int64_t{1} << 60), 0.0);
}

TEST(Schedule, RejectsWhatItDoesNotKnow) {
  for (const char* text : {"", "cosine", "step", "step:", "step:1", "step:0:0.7", "step:-1:0.7", "step:x:0.7",
                           "step:1:", "step:1:0", "step:1:nan", "step:1:-0.5", "step:1:0.7:3", "step:1.5:0.7"}) {
    try {
      Schedule::parse(text);
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("--schedule"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shoal::optim
