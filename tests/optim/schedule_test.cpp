// The formulas in closed form; tests/interop runs torch's and transformers' schedulers beside ours.
#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "core/error.h"

namespace shoal::optim {
namespace {

double rate(const char* text, std::int64_t step, std::int64_t total, std::int64_t warmup = 0) {
  return Schedule::parse(text).learning_rate(0.25, {.step = step, .total_steps = total, .warmup_steps = warmup});
}

TEST(Schedule, ConstantKeepsTheRate) {
  EXPECT_EQ(rate("constant", 0, 10), 0.25);
  EXPECT_EQ(rate("constant", 9, 10), 0.25);
}

// torch.optim.lr_scheduler.StepLR multiplies the rate it has; pow() would differ in the last bit.
TEST(Schedule, StepIsTheChainedFormOfStepLr) {
  const Schedule schedule = Schedule::parse("step:2:0.7");
  double expected = 1.0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    if (epoch > 0 && epoch % 2 == 0) expected *= 0.7;
    EXPECT_EQ(schedule.learning_rate(1.0, {.epoch = epoch, .step = 10 * epoch, .total_steps = 200}), expected);
  }
}

TEST(Schedule, FarEpochsAreCheap) {
  EXPECT_EQ(Schedule::parse("step:1:0.5").learning_rate(1.0, ScheduleTime{.epoch = std::int64_t{1} << 60}), 0.0);
}

TEST(Schedule, CosineIsHalfAWave) {
  EXPECT_EQ(rate("cosine", 0, 100), 0.25);
  EXPECT_DOUBLE_EQ(rate("cosine", 25, 100), 0.125 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(rate("cosine", 50, 100), 0.125);
  EXPECT_DOUBLE_EQ(rate("cosine:0.2", 50, 100), 0.25 * 0.6);
  EXPECT_DOUBLE_EQ(rate("cosine:0.2", 100, 100), 0.25 * 0.2);
  EXPECT_EQ(rate("cosine:1", 77, 100), 0.25);
}

TEST(Schedule, LinearIsAStraightLine) {
  EXPECT_EQ(rate("linear", 0, 100), 0.25);
  EXPECT_DOUBLE_EQ(rate("linear", 99, 100), 0.0025);
  EXPECT_DOUBLE_EQ(rate("linear:0.5", 50, 100), 0.25 * 0.75);
  EXPECT_DOUBLE_EQ(rate("linear:0.5", 100, 100), 0.125);
}

TEST(Schedule, WarmUpEndsAtTheBaseRateAndTheScheduleTakesTheRest) {
  for (const char* text : {"constant", "step:1:0.5", "cosine", "linear:0.1"}) {
    SCOPED_TRACE(text);
    EXPECT_DOUBLE_EQ(rate(text, 0, 50, 5), 0.05);
    EXPECT_DOUBLE_EQ(rate(text, 2, 50, 5), 0.15);
    EXPECT_EQ(rate(text, 4, 50, 5), 0.25);
    EXPECT_EQ(rate(text, 5, 50, 5), 0.25);
    EXPECT_EQ(rate(text, 30, 50, 5), rate(text, 25, 45)) << "as a run of 45 steps without warm-up";
  }
  EXPECT_EQ(rate("cosine", 4, 5, 5), 0.25) << "all of the run may be warm-up";
}

double warm_rate(const char* type, double least, std::int64_t step, std::int64_t warmup) {
  Schedule schedule = Schedule::parse("constant");
  schedule.warm_up_by(type, least);
  return schedule.learning_rate(0.25, {.step = step, .total_steps = 1000, .warmup_steps = warmup});
}

// DeepSpeed's WarmupLR: min + (max - min) * log(batch iteration + 1) / log(warmup_num_steps).
TEST(Schedule, LogarithmicWarmUpIsDeepSpeeds) {
  for (const std::int64_t warmup : {2, 10, 1000})
    for (const double least : {0.0, 0.25})
      for (const std::int64_t step : {0, 1, 5, 9, 10, 500, 999}) {
        const double gamma =
            step < warmup ? 1.0 / std::log(static_cast<double>(warmup)) * std::log(static_cast<double>(step) + 1) : 1.0;
        const double least_rate = least * 0.25;
        EXPECT_NEAR(warm_rate("log", least, step, warmup), least_rate + (0.25 - least_rate) * gamma, 1e-15)
            << step << " of " << warmup;
      }
  EXPECT_EQ(warm_rate("log", 0, 0, 1), 0.25) << "a single step";
}

TEST(Schedule, WarmUpMayBeginAboveZero) {
  EXPECT_DOUBLE_EQ(warm_rate("linear", 0.5, 0, 4), 0.25 * (0.5 + 0.5 / 4));
  EXPECT_EQ(warm_rate("linear", 0.5, 3, 4), 0.25);
}

// A run that was prolonged past its length stays where it ended.
TEST(Schedule, PastTheEndTheRateIsTheLast) {
  EXPECT_DOUBLE_EQ(rate("cosine:0.1", 1000, 100), 0.025);
  EXPECT_EQ(rate("linear", 1000, 100), 0.0);
}

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, RejectsAWarmUpLongerThanTheRun) {
  const std::string what = complaint([] { rate("constant", 0, 10, 11); });
  EXPECT_NE(what.find("--warmup 11"), std::string::npos) << what;
  EXPECT_NE(what.find("10 steps"), std::string::npos) << what;
}

TEST(Schedule, RejectsWhatItDoesNotKnow) {
  EXPECT_NE(complaint([] { warm_rate("sine", 0, 0, 1); }).find("--warmup-type"), std::string::npos);
  for (const double least : {-0.1, 1.1, std::nan("")})
    EXPECT_NE(complaint([&] { warm_rate("log", least, 0, 1); }).find("--warmup-min-ratio"), std::string::npos);
  for (const char* text : {"",           "sine",        "constant:1", "step",     "step:",      "step:1",
                           "step:0:0.7", "step:-1:0.7", "step:x:0.7", "step:1:",  "step:1:0",   "step:1:nan",
                           "step:1:-.5", "step:1:1:3",  "step:1.5:1", "cosine:",  "cosine:1.1", "cosine:-0.1",
                           "cosine:nan", "cosine:x",    "linear:",    "linear:2", "linear:0:1", "Cosine"}) {
    const std::string what = complaint([&] { Schedule::parse(text); });
    EXPECT_NE(what.find("--schedule"), std::string::npos) << "'" << text << "': " << what;
  }
}

}  // namespace
}  // namespace shoal::optim
