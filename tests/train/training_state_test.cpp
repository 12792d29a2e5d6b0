#include "train/training_state.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "train/option_changes.h"
#include "train/random_seed.h"
#include "train/thread_share.h"

namespace shoal::train {
namespace {

TrainOptions options_of_run() {
  TrainOptions options = defaults_for(models::find_model("mnist-net"));
  options.data.path = "somewhere";
  complete_and_check(options);
  return options;
}

constexpr DataIdentity kData{5000, 0xDEADBEEF};

Progress progress_in_epoch() {
  Progress progress;
  progress.step = 123;
  progress.position = {.epoch = 2, .consumed = 640};
  progress.tokens = 123'456'789'012;
  progress.epoch_loss_sum = 0.1 + 0.2;  // no short decimal: must come back to the last bit
  progress.epoch_count = 640;
  progress.test_step = 80;
  progress.test_accuracy = 1.0 / 3;
  progress.test_loss = 0.7;
  progress.best_test_accuracy = 2.0 / 3;
  return progress;
}

TEST(TrainingState, ComesBackToTheLastBit) {
  const Progress before = progress_in_epoch();
  const std::string text = format_training_state(options_of_run(), before, kData, 3);
  const Progress after = parse_progress(text, "x");
  EXPECT_EQ(after.step, before.step);
  EXPECT_EQ(after.position, before.position);
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.epoch_loss_sum, before.epoch_loss_sum);
  EXPECT_EQ(after.epoch_count, before.epoch_count);
  EXPECT_EQ(after.test_step, before.test_step);
  EXPECT_EQ(after.test_accuracy, before.test_accuracy);
  EXPECT_EQ(after.test_loss, before.test_loss);
  EXPECT_EQ(after.best_test_accuracy, before.best_test_accuracy);
}

TEST(TrainingState, WhatIsNoTrainingStateIsNamed) {
  for (const char* text : {"", "{", "[]", "{}", R"({"version": 2})", R"({"version": 1})",
                           R"({"version": 1, "step": "x", "epoch": 0, "samples_consumed": 0})"}) {
    try {
      parse_progress(text, "ck/step_1");
      ADD_FAILURE() << text;
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("ck/step_1: ")) << error.what();
    }
  }
}

TEST(TrainingState, AnotherModelOptimizerOrSeedIsRefused) {
  const std::string text = format_training_state(options_of_run(), progress_in_epoch(), kData, 3);
  TrainOptions options = options_of_run();
  EXPECT_NO_THROW(check_same_run(text, "x", options));
  options.model.name = "other-net";
  EXPECT_THROW(check_same_run(text, "x", options), CheckpointError);
  options = options_of_run();
  options.optimizer.rule.name = "sgd";
  EXPECT_THROW(check_same_run(text, "x", options), CheckpointError);
  options = options_of_run();
  options.run.seed = 7;
  EXPECT_THROW(check_same_run(text, "x", options), OptionError);
}

TEST(TrainingState, RefusedOptionsAreListedTogether) {
  TrainOptions options = options_of_run();
  options.model.shape.heads = 12;
  options.model.shape.rope_theta = 1e4;
  const std::string text = format_training_state(options, progress_in_epoch(), kData, 3);
  EXPECT_NO_THROW(check_same_run(text, "x", options));
  options.model.shape.heads = 6;
  options.model.shape.rope_theta = 5e5;
  options.optimizer.learning_rate = 0.5;
  options.run.log_every = 3;
  try {
    check_same_run(text, "ck/step_123", options);
    ADD_FAILURE();
  } catch (const OptionError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("--heads is 6 now and was 12; --rope-theta is 500000 now and was 10000;"), what.npos) << what;
    EXPECT_EQ(what.find("--lr"), what.npos) << what;
  }
}

// Each rule is about an option that there is, and the hash is about those with a rule.
TEST(OptionChanges, RulesAndHash) {
  TrainOptions options = options_of_run();
  options.model.shape = {.layers = 1,
                         .heads = 1,
                         .kv_heads = 1,
                         .hidden_size = 1,
                         .intermediate_size = 1,
                         .vocab_size = 1,
                         .max_positions = 1,
                         .dropout = 0,
                         .rope_theta = 1,
                         .rope_scaling = 1};
  const NamedValues before = resolved(options);
  int refused = 0, warned = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    NamedValues now = before;
    now[i].second += "x";
    const auto changes = changes_between(before, now);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].name, before[i].first);
    refused += changes[0].rule == ChangeRule::refused;
    warned += changes[0].rule == ChangeRule::warned;
    EXPECT_EQ(options_hash(now) == options_hash(before), changes[0].rule == ChangeRule::free) << changes[0].name;
  }
  EXPECT_EQ(refused, 13);
  EXPECT_EQ(warned, 30);
}

// What `shoal ckpt import` writes has no model, seed or data of its own.
TEST(TrainingState, AnImportIsTakenForTheRunsOwn) {
  const auto imported = [](const std::string& optimizer, bool with_optimizer) {
    return fmt::format(
        R"({{"version": 1, "step": 20, "optimizer_steps": 20, "optimizer": "{}", "imported": {{"with_optimizer": {}}}}})",
        optimizer, with_optimizer);
  };
  const TrainOptions options = options_of_run();
  const std::string same = imported(options.optimizer.rule.name, true);
  EXPECT_TRUE(is_imported(same));
  EXPECT_FALSE(is_imported(format_training_state(options, progress_in_epoch(), kData, 3)));
  check_same_run(same, "x", options);
  check_same_run(imported("", true), "x", options);  // the source did not tell
  EXPECT_THROW(check_same_run(imported("other", true), "x", options), CheckpointError);
  EXPECT_THROW(check_same_run(imported("", false), "x", options), CheckpointError);
  EXPECT_EQ(parse_progress(same, "x").step, 20);
  EXPECT_EQ(parse_progress(same, "x").optimizer_steps, 20);
}

// As if the run had been its own from the start.
TEST(TrainingState, TheDataGoOnWhereTheStepsHaveCome) {
  for (const std::int64_t batch : {1, 7, 8, 100, 250}) {
    const data::Sampler sampler(100, 0, false);
    data::SamplePosition walked;
    for (std::int64_t steps = 0; steps < 40; walked = sampler.advance(walked, batch), ++steps)
      EXPECT_EQ(position_after(steps, 100, batch), walked) << steps << " steps of " << batch;
  }
}

TEST(TrainingState, OtherDataAreRefusedInTheMiddleOfAnEpochOnly) {
  Progress progress = progress_in_epoch();
  const TrainOptions options = options_of_run();
  TrainOptions unshuffled = options_of_run();
  unshuffled.data.shuffle = false;
  std::string text = format_training_state(options, progress, kData, 3);
  EXPECT_NO_THROW(check_continues(text, "x", options, kData));
  EXPECT_THROW(check_continues(text, "x", options, {5000, 1}), OptionError);
  EXPECT_THROW(check_continues(text, "x", options, {6000, kData.fingerprint}), OptionError);
  EXPECT_THROW(check_continues(text, "x", unshuffled, kData), OptionError);
  progress.position.consumed = 0;
  text = format_training_state(options, progress, kData, 3);
  EXPECT_NO_THROW(check_continues(text, "x", options, {6000, 1}));
  EXPECT_NO_THROW(check_continues(text, "x", unshuffled, kData));
}

TEST(TrainingState, AChangedCourseIsALoudWarning) {
  const std::string text = format_training_state(options_of_run(), progress_in_epoch(), kData, 3);
  TrainOptions options = options_of_run();
  options.optimizer.learning_rate = 0.5;
  options.run.log_every = 3;  // does not change the course
  ::testing::internal::CaptureStderr();
  check_continues(text, "ck/step_123", options, kData);
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warnings.find("--lr is 0.5 now and was 1 when ck/step_123 was written"), std::string::npos) << warnings;
  EXPECT_EQ(warnings.find("log-every"), std::string::npos) << warnings;
}

// Part of what a run means: the numbers are those of the Python in docs/training.md.
TEST(MicroStepSeed, IsTheSameForEver) {
  EXPECT_EQ(micro_step_seed(1, 0, 0, 0), 6995469346811053111u);
  EXPECT_EQ(micro_step_seed(1, 7, 2, 3), 4496959767520551330u);
  EXPECT_LT(micro_step_seed(1, 7, 2, 3), std::uint64_t{1} << 63);
}

TEST(FairThreads, DividesCoresAmongTheRanksThatShareThem) {
  const CpuSet all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(fair_threads({all}, all), 8);
  EXPECT_EQ(fair_threads({all, all, all}, all), 2);
  EXPECT_EQ(fair_threads({{0, 1, 2, 3}, {4, 5, 6, 7}}, {4, 5, 6, 7}), 4) << "bound by the launcher";
  EXPECT_EQ(fair_threads({{0, 1, 2, 3}, {2, 3}}, {0, 1, 2, 3}), 3);
  EXPECT_EQ(fair_threads({{0}, {0}, {0}}, {0}), 1) << "more ranks than cores";
}

}  // namespace
}  // namespace shoal::train
