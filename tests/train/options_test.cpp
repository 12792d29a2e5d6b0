#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/error.h"
#include "train/batch_plan.h"
#include "train/cadence.h"
#include "train/options.h"
#include "train/tree_sum.h"

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

TEST(Options, AHangIsToldBeforeACollectiveGivesUp) {
  const auto collective_timeout = [](double hang, double given) {
    TrainOptions options = good_options();
    options.job.hang_timeout = hang;
    if (given > 0) options.run.collective_timeout = given;
    complete_and_check(options);
    return options.run.collective_timeout;
  };
  EXPECT_EQ(collective_timeout(600, 0), 660);
  EXPECT_EQ(collective_timeout(5, 0), 65);
  EXPECT_EQ(collective_timeout(0, 0), 600);
  EXPECT_EQ(collective_timeout(600, 3), 3);
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
  expect_complaint("--hang-timeout", [](auto& o) { o.job.hang_timeout = 0.5; });
  expect_complaint("--hang-timeout", [](auto& o) { o.job.hang_timeout = -1; });
  expect_complaint("--batch-size", [](auto& o) { o.batch.batch_size = -1; });
  expect_complaint("--accumulate", [](auto& o) { o.batch.accumulate = -1; });
  expect_complaint("--test-batch-size", [](auto& o) { o.data.test_batch_size = -1; });
  expect_complaint("--sequence-length", [](auto& o) { o.data.sequence_length = -1; });
  expect_complaint("--token-type", [](auto& o) { o.data.token_type = "int8"; });
  expect_complaint("--mask-probability", [](auto& o) { o.data.mask_probability = 1; });
  expect_complaint("--prefetch-batches", [](auto& o) { o.data.prefetch = -1; });
  expect_complaint("--sync-module-states", [](auto& o) { o.model.rank0_reads = true; });
  expect_complaint("--param-dtype", [](auto& o) { o.sharding.param_dtype = "int8"; });
  expect_complaint("--reduce-dtype", [](auto& o) { o.sharding.reduce_dtype = "bfloat16"; });
  expect_complaint("--buffer-dtype", [](auto& o) { o.sharding.buffer_dtype = ""; });
  expect_complaint("--offload", [](auto& o) { o.sharding.offload = "disk"; });
  expect_complaint("--activation-checkpoint", [](auto& o) { o.sharding.activation_checkpoint = "some"; });
  expect_complaint("--accumulate-mode", [](auto& o) { o.sharding.accumulate_mode = "never"; });
  expect_complaint("--warmup", [](auto& o) { o.optimizer.warmup = -1; });
  expect_complaint("--no-decay", [](auto& o) { o.optimizer.no_decay = ""; });
  expect_complaint("--param-group", [](auto& o) { o.optimizer.param_groups = {"head"}; });
  expect_complaint("--data", [](auto& o) { o.data.path.clear(); });
  expect_complaint("--lr", [](auto& o) { o.optimizer.learning_rate = -1; });
  expect_complaint("--clip-grad-norm", [](auto& o) { o.optimizer.clip_grad_norm = -1; });
  expect_complaint("--optimizer", [](auto& o) { o.optimizer.rule.name = "lion"; });
  expect_complaint("--schedule", [](auto& o) { o.optimizer.schedule = "sine"; });
  expect_complaint("--strategy", [](auto& o) { o.sharding.strategy = "half_shard"; });
  expect_complaint("--shard-size", [](auto& o) { o.sharding.shard_size = 2; });
  expect_complaint("--wrap", [](auto& o) { o.sharding.wrap = "every"; });
  EXPECT_EQ(complaint([](auto&) {}), "");
}

TEST(Options, WrongOnesOfCheckpointsAreNamed) {
  expect_complaint("--keep", [](auto& o) { o.checkpoint.keep = 0; });
  expect_complaint("--checkpoint-view", [](auto& o) { o.checkpoint.view = "yes"; });
  expect_complaint("--keep-every", [](auto& o) { o.checkpoint.keep_every = -1; });
  expect_complaint("--checkpoint-every", [](auto& o) { o.checkpoint.every = "often"; });
  expect_complaint("--output", [](auto& o) { o.checkpoint.output = "weights.bin"; });
  expect_complaint("--output", [](auto& o) { o.checkpoint = {.directory = "none", .output = "weights.h5"}; });
  expect_complaint("--files", [](auto& o) { o.checkpoint.files = -1; });
  expect_complaint("--async-save", [](auto& o) { o.checkpoint.async_save = "on"; });
  expect_complaint("--stage-gib", [](auto& o) { o.checkpoint.stage_gib = -0.5; });
}

TEST(Options, SavingAtTheStartNeedsAPlace) {
  expect_complaint("--save-at-start", [](auto& o) { o.checkpoint = {.directory = "none", .save_at_start = true}; });
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

// What all ranks together do: for each number of a micro-batch its samples.
std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> micro_batches(const BatchPlan& plan, Range places) {
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> all;
  for (int rank = 0; rank < plan.ranks; ++rank)
    for (const MicroStep& step : plan.rank_steps(places, rank)) {
      EXPECT_GT(step.places.count, 0);
      EXPECT_EQ(step.seed_rank, 0);
      if (!step.counts) continue;
      EXPECT_TRUE(all.emplace(step.number, std::pair(step.places.begin, step.places.count)).second);
    }
  return all;
}

TEST(BatchPlan, FixedMicroBatchesAreTheSameOnAnyRanks) {
  const BatchOptions options{.batch_size = 3, .global_batch_size = 16, .deterministic = true};
  const BatchPlan one = plan_batches(options, 1, 64);
  EXPECT_EQ(one.micro_steps, 6);
  EXPECT_EQ(plan_batches(options, 4, 64).micro_steps, 2);
  for (const Range places : {Range{32, 16}, Range{48, 2}, Range{0, 9}}) {
    const auto expected = micro_batches(one, places);
    std::int64_t samples = 0;
    for (const auto& [number, batch] : expected) samples += batch.second;
    EXPECT_EQ(samples, places.count);
    for (const int ranks : {2, 4, 8}) EXPECT_EQ(micro_batches(plan_batches(options, ranks, 64), places), expected);
  }
}

TEST(BatchPlan, EvenPartsCoverAStepOnce) {
  for (const int ranks : {1, 2, 3, 5}) {
    const BatchPlan plan = plan_batches({.global_batch_size = 23, .accumulate = 4}, ranks, 64);
    std::vector<int> seen(40, 0);
    for (int rank = 0; rank < ranks; ++rank)
      for (const MicroStep& step : plan.rank_steps({10, 23}, rank))
        for (std::int64_t i = 0; step.counts && i < step.places.count; ++i) ++seen[step.places.begin + i];
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i >= 10 && i < 33 ? 1 : 0) << i;
  }
}

double tree(const std::vector<double>& terms) {
  TreeSum sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

TEST(TreeSum, IsTheTreeWhateverItsTermsAreSumsOf) {
  // Values whose sum depends on the order.
  std::vector<double> terms;
  for (int i = 0; i < 37; ++i) terms.push_back((i % 3 - 1) * std::pow(10.0, i % 17) + 0.1 * i);
  EXPECT_EQ(tree({terms[0], terms[1], terms[2]}), (terms[0] + terms[1]) + terms[2]);
  EXPECT_EQ(tree({1, 2, 3, 4, 5, 6, 7}), 28);
  EXPECT_EQ(tree({}), 0);
  for (std::size_t count = 1; count <= terms.size(); ++count) {
    const std::vector<double> leaves(terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(count));
    for (const std::size_t ranks : {2, 4, 8}) {
      std::vector<double> blocks;  // what a tree over the ranks gives, zeros where there is no leaf
      for (std::size_t begin = 0; begin < count; begin += ranks) {
        std::vector<double> block(ranks, 0.0);
        std::copy_n(leaves.begin() + static_cast<std::ptrdiff_t>(begin), std::min(ranks, count - begin), block.begin());
        blocks.push_back(tree(block));
      }
      EXPECT_EQ(tree(blocks), tree(leaves)) << count << " terms on " << ranks << " ranks";
    }
  }
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
