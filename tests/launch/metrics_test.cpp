// Lines of metrics.jsonl come back as they were written, and whatever a killed or newer program left does no harm.
#include "launch/metrics_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "support/temporary_folder.h"

namespace shoal::testing {
namespace {

launch::StepMetrics step_of(std::int64_t step, int attempt = 1) {
  return {.attempt = attempt,
          .time = 1700000000.25,
          .step = step,
          .epoch = 2,
          .loss = 1.0 / 3,
          .learning_rate = 3e-4,
          .grad_norm = 0.75,
          .ranks = 4,
          .samples_per_second = 100,
          .tokens_per_second = 102400,
          .mfu = 0.41,
          .step_ms = 12.5,
          .split = launch::StepSplit{step - 1, 12, 8, 1, 2, 0.5, 0.5},
          .allocated = std::int64_t{1} << 40,
          .reserved = 7,
          .peak = 9,
          .seconds_left = 60};
}

// What a program that was killed, or something else, leaves at the end of the file.
void append_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

TEST(MetricsTest, EveryFieldComesBack) {
  const std::string text = launch::format(step_of(40));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_NE(text.find("\"samples_per_second_per_rank\":25.0"), std::string::npos) << text;
  EXPECT_NE(text.find("\"tokens_per_second_per_rank\":25600.0"), std::string::npos) << text;
  const auto line = launch::parse_metrics(text, "here");
  ASSERT_TRUE(line);
  const auto& step = std::get<launch::StepMetrics>(*line);
  EXPECT_EQ(step.loss, 1.0 / 3);
  EXPECT_EQ(step.allocated, std::int64_t{1} << 40);
  ASSERT_TRUE(step.split);
  EXPECT_EQ(step.split->step, 39);
  EXPECT_EQ(step.split->exposed, 1);
  EXPECT_EQ(launch::format(step), text);
}

TEST(MetricsTest, WhatIsNotKnownIsNotWritten) {
  launch::StepMetrics step{.attempt = 1, .step = 1, .ranks = 1};
  step.loss = std::numeric_limits<double>::infinity();
  const std::string text = launch::format(step);
  for (const char* absent : {"grad_norm", "tokens", "mfu", "split", "allocated", "seconds_left"})
    EXPECT_EQ(text.find(absent), std::string::npos) << text;
  EXPECT_NE(text.find("\"loss\":null"), std::string::npos) << text;
  EXPECT_TRUE(std::isnan(std::get<launch::StepMetrics>(*launch::parse_metrics(text, "here")).loss));
}

TEST(MetricsTest, OtherKindsOfLinesAreNotThisVersionsBusiness) {
  EXPECT_FALSE(launch::parse_metrics(R"({"type": "weather", "rain": true})", "here"));
  EXPECT_FALSE(launch::parse_metrics(R"({"type": "step", "step": "many"})", "here"));
  EXPECT_FALSE(launch::parse_metrics("[1, 2]", "here"));
  EXPECT_FALSE(launch::parse_metrics(R"({"type": "st)", "here"));
}

TEST(MetricsTest, ANewerVersionIsNamed) {
  try {
    launch::parse_metrics(R"({"type": "start", "version": 2})", "run/metrics.jsonl");
    FAIL() << "a newer version was read";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("run/metrics.jsonl was written by a newer version"), std::string::npos);
  }
}

TEST(MetricsFileTest, EveryAttemptGoesOnWhereTheOneBeforeWasKilled) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    launch::MetricsFile file(path);
    file.append(launch::MetricsStart{.attempt = 1, .model = "m", .strategy = "s", .device = "cpu", .ranks = 4});
    for (const int step : {10, 20, 30}) file.append(step_of(step));
    file.append(launch::CheckpointMetrics{1, 5, 20, 1000, 0.5});
  }
  append_text(path, R"({"type":"step","attempt":1,"ti)");
  EXPECT_EQ(launch::read_metrics(path).unreadable, 0u);  // it may still be being written
  {
    launch::MetricsFile file(path);
    for (const int step : {30, 40}) file.append(step_of(step, 2));
    file.append(launch::ValidationMetrics{2, 9, 40, 1.5, 0.25});
  }
  const launch::MetricsHistory history = launch::read_metrics(path);
  EXPECT_EQ(history.unreadable, 1u);
  ASSERT_EQ(history.starts.size(), 1u);
  EXPECT_EQ(history.starts[0].ranks, 4);
  std::vector<std::pair<std::int64_t, int>> steps;
  for (const auto& step : history.steps) steps.emplace_back(step.step, step.attempt);
  EXPECT_EQ(steps, (std::vector<std::pair<std::int64_t, int>>{{10, 1}, {20, 1}, {30, 2}, {40, 2}}));
  ASSERT_EQ(history.checkpoints.size(), 1u);
  EXPECT_EQ(history.checkpoints[0].bytes, 1000);
  ASSERT_EQ(history.validations.size(), 1u);
  EXPECT_EQ(history.validations[0].accuracy, 0.25);
}

TEST(MetricsFileTest, WhatCannotBeWrittenIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THROW(launch::MetricsFile(folder.path() / "absent" / "metrics.jsonl"), IoError);
  EXPECT_THROW(launch::read_metrics(folder.path() / "metrics.jsonl"), IoError);
  launch::MetricsFile full("/dev/full");
  full.append(step_of(1));  // a warning, and nothing thrown
}

}  // namespace
}  // namespace shoal::testing
