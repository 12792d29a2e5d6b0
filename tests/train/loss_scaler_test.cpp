// The scale of fp16's losses; tests/interop compares its course with torch.amp.GradScaler's.
#include "train/loss_scaler.h"

#include <gtest/gtest.h>

#include <string>

#include "train/agreement.h"

namespace shoal::train {
namespace {

void take_good_steps(LossScaler& scaler, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) ASSERT_TRUE(scaler.update(true));
}

TEST(LossScaler, DoublesAfterGoodStepsInARowAlone) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  take_good_steps(scaler, LossScaler::kGrowthInterval - 1);
  EXPECT_EQ(scaler.scale(), 65536);
  take_good_steps(scaler, 1);
  EXPECT_EQ(scaler.scale(), 131072);
  take_good_steps(scaler, LossScaler::kGrowthInterval - 1);
  EXPECT_FALSE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 65536);
  take_good_steps(scaler, LossScaler::kGrowthInterval - 1);
  EXPECT_EQ(scaler.scale(), 65536) << "the count starts anew after an overflow";
}

TEST(LossScaler, ARestoredOneGoesOnAsIfNeverStopped) {
  LossScaler scaler, other;
  scaler.update(false);
  take_good_steps(scaler, 700);
  other.restore(scaler.state());
  EXPECT_EQ(other.state(), (LossScalerState{32768, 700}));
  take_good_steps(scaler, 1300), take_good_steps(other, 1300);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(other.state(), scaler.state());
}

TEST(LossScaler, StopsGrowingWhereFloat32Ends) {
  LossScaler scaler;
  scaler.restore({0x1p127, LossScaler::kGrowthInterval - 1});
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.state(), (LossScalerState{0x1p127, 0}));
}

TEST(LossScaler, AnEndlessOverflowIsAnErrorThatNamesTheRemedy) {
  LossScaler scaler;
  for (int i = 0; i < 30; ++i) ASSERT_FALSE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), LossScaler::kLeastScale);
  const LossScalerState last = scaler.state();
  try {
    scaler.update(false);
    FAIL() << "no error";
  } catch (const AgreedError& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.exit_code(), ExitCode::usage);
    for (const char* word : {"NaN", "--lr", "--param-dtype"}) EXPECT_NE(what.find(word), std::string::npos) << what;
  }
  EXPECT_EQ(scaler.state(), last) << "what a checkpoint would keep";
  EXPECT_TRUE(scaler.update(true));
}

}  // namespace
}  // namespace shoal::train
