// The scale of fp16's losses; tests/interop compares its course with torch.amp.GradScaler's.
#include "train/loss_scaler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "train/agreement.h"

namespace shoal::train {
namespace {

const std::int64_t kWindow = LossScaleOptions().window;

void take_good_steps(LossScaler& scaler, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) ASSERT_TRUE(scaler.update(true));
}

TEST(LossScaler, DoublesAfterGoodStepsInARowAlone) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  take_good_steps(scaler, kWindow - 1);
  EXPECT_EQ(scaler.scale(), 65536);
  take_good_steps(scaler, 1);
  EXPECT_EQ(scaler.scale(), 131072);
  take_good_steps(scaler, kWindow - 1);
  EXPECT_FALSE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 65536);
  take_good_steps(scaler, kWindow - 1);
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
  scaler.restore({0x1p127, kWindow - 1});
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.state(), (LossScalerState{0x1p127, 0}));
}

TEST(LossScaler, AnEndlessOverflowIsAnErrorThatNamesTheRemedy) {
  LossScaler scaler;
  for (int i = 0; i < 30; ++i) ASSERT_FALSE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), LossScaleOptions().least);
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

// DeepSpeed's DynamicLossScaler, written from its update_scale(): the scale after each step, of which those that
// overflow are marked by '!'. Its count of good steps begins one
// earlier than there, as torch's does.
std::vector<double> deepspeed_scales(const LossScaleOptions& options, const std::string& steps) {
  std::vector<double> scales;
  double scale = std::ldexp(1.0, static_cast<int>(options.initial_power));
  std::int64_t left = options.hysteresis, last_overflow = 0;  // one more than DeepSpeed's, so that it has no lag
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(steps.size()); ++i) {
    if (steps[static_cast<std::size_t>(i)] == '!') {
      if (options.hysteresis == 1 || left == 1)
        scale = std::max(scale / 2, options.least);
      else
        --left;
      last_overflow = i + 1;
    } else {
      if (options.consecutive_hysteresis) left = options.hysteresis;
      const std::int64_t stable = i + 1 - last_overflow;
      if (stable > 0 && stable % options.window == 0) {
        left = options.hysteresis;
        scale *= 2;
      }
    }
    scales.push_back(scale);
  }
  return scales;
}

TEST(LossScaler, FollowsDeepSpeedsSettings) {
  const std::string steps = "..!..!!......!.!...!!!!!!!.........!...........!!..";
  for (const std::int64_t hysteresis : {1, 2, 3})
    for (const bool consecutive : {false, true}) {
      SCOPED_TRACE(hysteresis);
      const LossScaleOptions options{.initial_power = 14,
                                     .window = 3,
                                     .hysteresis = hysteresis,
                                     .consecutive_hysteresis = consecutive,
                                     .least = 0.25};
      LossScaler scaler(options);
      EXPECT_EQ(scaler.scale(), 16384);
      std::vector<double> scales;
      for (const char step : steps) {
        EXPECT_EQ(scaler.update(step == '.'), step == '.');
        scales.push_back(scaler.scale());
      }
      EXPECT_EQ(scales, deepspeed_scales(options, steps)) << consecutive;
    }
}

TEST(LossScaler, AFixedScaleStaysAndGivesUpInTheEnd) {
  LossScaler scaler({.fixed = 128});
  scaler.restore({.scale = 65536, .good_steps = 3});
  EXPECT_EQ(scaler.scale(), 128);
  for (int i = 1; i < LossScaler::kMostFixedOverflows; ++i) ASSERT_FALSE(scaler.update(false));
  EXPECT_TRUE(scaler.update(true)) << "which ends the row";
  take_good_steps(scaler, kWindow + 1);
  EXPECT_EQ(scaler.scale(), 128);
  for (int i = 1; i < LossScaler::kMostFixedOverflows; ++i) ASSERT_FALSE(scaler.update(false));
  try {
    scaler.update(false);
    FAIL() << "no error";
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("--loss-scale"), std::string::npos) << error.what();
  }
}

TEST(LossScaler, OptionsThatMakeNoSenseAreNamed) {
  const auto complaint = [](const LossScaleOptions& options) -> std::string {
    try {
      check(options);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint({}), "");
  EXPECT_NE(complaint({.fixed = -1}).find("--loss-scale "), std::string::npos);
  EXPECT_NE(complaint({.initial_power = 128}).find("--initial-scale-power"), std::string::npos);
  EXPECT_NE(complaint({.window = 0}).find("--loss-scale-window"), std::string::npos);
  EXPECT_NE(complaint({.hysteresis = 0}).find("--hysteresis"), std::string::npos);
  EXPECT_NE(complaint({.initial_power = 2, .least = 8}).find("--min-loss-scale 8"), std::string::npos);
}

}  // namespace
}  // namespace shoal::train
