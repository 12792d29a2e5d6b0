#include <gtest/gtest.h>

#include "core/error.h"
#include "train/batch_plan.h"
#include "train/cadence.h"
#include "train/options.h"

namespace shoal::train {
namespace {

TrainOptions good_options() {
  TrainOptions options = defaults_for(models::find_model("mnist-net"));
  options.data.path = "somewhere";
  return options;
}

// The message of the OptionError that `change` leads to.
std::string complaint(const std::function<void(TrainOptions&)>& change) {
  TrainOptions options = good_options();
  change(options);
  try {
    complete_and_check(options);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "";
}

void expect_complaint(const std::string& part, const std::function<void(TrainOptions&)>& change) {
  EXPECT_NE(complaint(change).find(part), std::string::npos) << "wanted " << part << " in: " << complaint(change);
}

TEST(Options, ComeFromTheModel) {
  TrainOptions options = good_options();
  complete_and_check(options);
  EXPECT_EQ(options.optimizer.rule.name, "adadelta");
  EXPECT_EQ(options.optimizer.learning_rate, 1.0);
  EXPECT_EQ(options.optimizer.schedule, "step:1:0.7");
  EXPECT_EQ(options.run.epochs, 10);
  EXPECT_EQ(options.checkpoint.directory, "checkpoints/mnist-net");
  EXPECT_EQ(options.checkpoint.output, "checkpoints/mnist-net/mnist-net.h5");
}

TEST(Options, MaxStepsAloneLiftsTheLimitOfEpochs) {
  TrainOptions options = good_options();
  options.run.max_steps = 5;
  complete_and_check(options);
  EXPECT_EQ(options.run.epochs, kNoEpochLimit);
}

TEST(Options, WithoutCheckpointsNothingIsWritten) {
  TrainOptions options = good_options();
  options.checkpoint.directory = "none";
  complete_and_check(options);
  EXPECT_FALSE(writes_checkpoints(options));
  EXPECT_FALSE(writes_output(options));
}

TEST(Options, WrongOnesAreNamed) {
  expect_complaint("--epochs", [](auto& o) { o.run.epochs = -1; });
  expect_complaint("--max-steps", [](auto& o) { o.run.max_steps = -1; });
  expect_complaint("--seed", [](auto& o) { o.run.seed = -1; });
  expect_complaint("--log-every", [](auto& o) { o.run.log_every = 0; });
  expect_complaint("--threads", [](auto& o) { o.run.threads = -2; });
  expect_complaint("--device", [](auto& o) { o.run.device = "tpu"; });
  expect_complaint("--collective-timeout", [](auto& o) { o.run.collective_timeout = 0; });
  expect_complaint("--batch-size", [](auto& o) { o.batch.batch_size = -1; });
  expect_complaint("--accumulate", [](auto& o) { o.batch.accumulate = -1; });
  expect_complaint("--test-batch-size", [](auto& o) { o.data.test_batch_size = 0; });
  expect_complaint("--data", [](auto& o) { o.data.path.clear(); });
  expect_complaint("--lr", [](auto& o) { o.optimizer.learning_rate = -1; });
  expect_complaint("--clip-grad-norm", [](auto& o) { o.optimizer.clip_grad_norm = -1; });
  expect_complaint("--optimizer", [](auto& o) { o.optimizer.rule.name = "lion"; });
  expect_complaint("--schedule", [](auto& o) { o.optimizer.schedule = "cosine"; });
  expect_complaint("--strategy", [](auto& o) { o.sharding.strategy = "half_shard"; });
  expect_complaint("--shard-size", [](auto& o) { o.sharding.shard_size = 2; });
  expect_complaint("--wrap", [](auto& o) { o.sharding.wrap = "every"; });
  expect_complaint("--keep", [](auto& o) { o.checkpoint.keep = 0; });
  expect_complaint("--checkpoint-every", [](auto& o) { o.checkpoint.every = "often"; });
  expect_complaint("--output", [](auto& o) { o.checkpoint.output = "weights.bin"; });
  expect_complaint("--output", [](auto& o) { o.checkpoint = {.directory = "none", .output = "weights.h5"}; });
  EXPECT_EQ(complaint([](auto&) {}), "");
}

TEST(Cadence, CountsStepsOrEpochs) {
  const Cadence steps = Cadence::parse("100"), epochs = Cadence::parse("2e"), never = Cadence::parse("0");
  EXPECT_TRUE(steps.due(200, 0));
  EXPECT_FALSE(steps.due(201, 2));
  EXPECT_TRUE(epochs.due(7, 4));
  EXPECT_FALSE(epochs.due(7, 3));
  EXPECT_FALSE(epochs.due(8, 0)) << "in the middle of an epoch";
  EXPECT_FALSE(never.due(100, 2));
  for (const char* text : {"", "e", "-1", "1.5", "10s", "2ee", "e2", " 3"})
    EXPECT_THROW(Cadence::parse(text), OptionError) << text;
}

void expect_plan(const BatchOptions& options, int ranks, std::int64_t global_batch, std::int64_t micro_steps,
                 std::int64_t rank_batch) {
  const BatchPlan plan = plan_batches(options, ranks, 64);
  EXPECT_EQ(plan.global_batch, global_batch);
  EXPECT_EQ(plan.micro_steps, micro_steps);
  EXPECT_EQ(plan.rank_batch(), rank_batch);
  EXPECT_EQ(plan.micro_steps_for(global_batch), micro_steps);
}

TEST(BatchPlan, FollowsFromWhatIsGiven) {
  expect_plan({}, 3, 192, 1, 64);
  expect_plan({.batch_size = 10}, 3, 30, 1, 10);
  expect_plan({.batch_size = 10, .accumulate = 4}, 3, 120, 4, 10);
  expect_plan({.global_batch_size = 100}, 3, 100, 1, 34);
  expect_plan({.global_batch_size = 100, .accumulate = 2}, 3, 100, 2, 17);
  expect_plan({.batch_size = 16, .global_batch_size = 100}, 3, 100, 3, 12);
  expect_plan({.batch_size = 16, .global_batch_size = 96, .accumulate = 2}, 3, 96, 2, 16);
}

TEST(BatchPlan, AShortStepTakesAsManyMicroStepsAsItFills) {
  const BatchPlan plan = plan_batches({.batch_size = 10, .accumulate = 4}, 3, 64);  // 30 samples a micro-step
  EXPECT_EQ(plan.micro_steps_for(1), 1);
  EXPECT_EQ(plan.micro_steps_for(30), 1);
  EXPECT_EQ(plan.micro_steps_for(31), 2);
  EXPECT_EQ(plan.micro_steps_for(119), 4);
}

TEST(BatchPlan, ContradictionsAndIdleRanksAreNamed) {
  EXPECT_THROW(plan_batches({.batch_size = 16, .global_batch_size = 100, .accumulate = 2}, 3, 64), OptionError);
  EXPECT_THROW(plan_batches({.global_batch_size = 2}, 3, 64), OptionError);
  EXPECT_THROW(plan_batches({.global_batch_size = 5, .accumulate = 2}, 3, 64), OptionError);
  EXPECT_THROW(plan_batches({.batch_size = std::int64_t{1} << 62}, 3, 64), OptionError);
  EXPECT_THROW(plan_batches({.batch_size = std::int64_t{1} << 30, .accumulate = std::int64_t{1} << 30}, 3, 64),
               OptionError);
}

}  // namespace
}  // namespace shoal::train
