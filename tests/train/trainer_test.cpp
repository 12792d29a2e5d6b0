// The trainer at any number of ranks against a plain LibTorch loop over the same samples.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/catalog.h"
#include "comm/mpi_process_group.h"
#include "train/agreement.h"
#include "train/evaluation.h"
#include "train/harness.h"

namespace shoal::train {
namespace {

comm::ProcessGroup& world() {
  static comm::MpiProcessGroup* group = new comm::MpiProcessGroup(MPI_COMM_WORLD);  // MPI ends before static objects
  return *group;
}

struct PlainResult {
  double epoch_loss_sum = 0;  // of the last epoch, which is not finished
  Weights weights;
};

constexpr std::int64_t kSteps = 11;  // two epochs of four steps, and three more

// What the options of SmallJob mean, in LibTorch's own words.
PlainResult train_plainly(const SmallJob& job) {
  SmallModel model(job.dropout);
  const SmallData data(job.samples);
  data::Sampler sampler(job.samples, static_cast<std::uint64_t>(job.options.run.seed), job.options.data.shuffle);
  torch::optim::AdamW optimizer(model.module()->parameters(), torch::optim::AdamWOptions(0.05).weight_decay(0.01));
  PlainResult result;
  data::SamplePosition at;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const std::int64_t batch = job.options.batch.global_batch_size;
    const auto samples = sampler.samples(at.epoch, sampler.step_range(at, batch));
    optimizer.zero_grad();
    const at::Tensor loss = model.loss(data.batch(samples)).sum;
    (loss / static_cast<double>(samples.size())).backward();
    if (job.options.optimizer.clip_grad_norm > 0)
      torch::nn::utils::clip_grad_norm_(model.module()->parameters(), job.options.optimizer.clip_grad_norm);
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0.05 * std::pow(0.5, at.epoch));
    optimizer.step();
    result.epoch_loss_sum += loss.item<double>();
    at = sampler.advance(at, batch);
    if (at.consumed == 0) result.epoch_loss_sum = 0;
  }
  result.weights = copy_weights(*model.module());
  return result;
}

void expect_like_plain(SmallJob job) {
  job.options.run.max_steps = kSteps;
  const PlainResult expected = train_plainly(job);
  SmallRun run(world(), job);
  EXPECT_EQ(run.run(), Outcome::finished);
  EXPECT_LT(largest_difference(run.weights(), expected.weights), 1e-9);
  EXPECT_NEAR(run.progress().epoch_loss_sum, expected.epoch_loss_sum, 1e-9);
  EXPECT_EQ(run.progress().step, kSteps);
  EXPECT_EQ(run.progress().position, (data::SamplePosition{2, 48}));
  EXPECT_EQ(run.progress().test_step, kSteps) << "a run that ends within an epoch is validated too";
}

TEST(Trainer, EqualsAPlainLoopWithEachStrategy) {
  for (const char* strategy : {"full_shard", "shard_grad_op", "no_shard"}) {
    SCOPED_TRACE(strategy);
    SmallJob job;
    job.options.sharding.strategy = strategy;
    expect_like_plain(job);
  }
}

TEST(Trainer, AccumulationChangesNothing) {
  SmallJob job;
  job.options.batch.accumulate = 3;
  expect_like_plain(job);
}

// With 3 samples left over and 4 ranks, one rank has none of them; it must neither hang nor count.
TEST(Trainer, ARankWithoutSamplesTakesPart) {
  SmallJob job;
  job.samples = 51;
  expect_like_plain(job);
}

TEST(Trainer, ClipsAsLibTorchDoes) {
  SmallJob job;
  job.options.optimizer.clip_grad_norm = 0.05;
  expect_like_plain(job);
  SmallJob unclipped;
  EXPECT_GT(largest_difference(train_plainly(job).weights, train_plainly(unclipped).weights), 1e-6);
}

TEST(Trainer, EvaluatesEverySampleOnce) {
  SmallJob job;
  job.options.run.max_steps = 1;
  SmallRun run(world(), job);
  run.run();
  SmallModel plain(0);
  const SmallData data(17);
  {
    const at::NoGradGuard no_grad;
    const Weights weights = run.weights();
    for (auto& p : plain.module()->named_parameters()) p.value().copy_(weights.at(p.key()));
  }
  std::vector<std::int64_t> all(17);
  std::iota(all.begin(), all.end(), 0);
  const models::EvalSum expected = plain.evaluate(data.batch(all));
  EXPECT_NEAR(run.progress().test_loss, expected.loss_sum / 17, 1e-12);
  EXPECT_DOUBLE_EQ(run.progress().test_accuracy, static_cast<double>(expected.correct) / 17);
}

TEST(Trainer, DropoutDependsOnTheSeed) {
  SmallJob job;
  job.dropout = 0.5;
  SmallRun first(world(), job), again(world(), job);
  first.run();
  again.run();
  EXPECT_EQ(largest_difference(first.weights(), again.weights()), 0);
  job.options.run.seed = 2;
  job.options.data.shuffle = false;
  SmallJob other = job;
  other.options.run.seed = 3;
  SmallRun second(world(), job), third(world(), other);
  second.run();
  third.run();
  EXPECT_GT(largest_difference(second.weights(), third.weights()), 1e-6) << "the order of samples is the same";
}

TEST(Trainer, ALossThatIsNotFiniteEndsTheRunBeforeTheStep) {
  SmallJob job;
  job.options.optimizer.learning_rate = std::numeric_limits<double>::max();
  SmallRun run(world(), job);
  try {
    run.run();
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("lower --lr"), std::string::npos) << error.what();
  }
}

TEST(RunEverywhere, AFailureOfOneRankIsOneOfAll) {
  const int culprit = world().size() - 1;
  try {
    run_everywhere(world(), [&]() -> std::string {
      if (world().rank() == culprit) throw DataError("no such file");
      return "";
    });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::data);
    EXPECT_EQ(error.what(), culprit == 0 ? "no such file" : fmt::format("rank {}: no such file", culprit));
  }
}

// Gradients beyond fp16's range on every rank or on one: all leave the step out and halve the scale, until it fits.
TEST(StepRunner, StepsThatOverflowAreLeftOut) {
  SmallJob job;
  job.options.sharding.param_dtype = "fp16";
  SmallRun run(world(), job);
  StepRunner runner(run.parts(), run.plan(), {.loss_scale = LossScaleOptions()});
  data::Sampler sampler(job.samples, 1, true);
  runner.loss_scaler()->restore({.scale = 0x1p24, .good_steps = 7});
  const Weights before = run.weights();
  const auto step = [&] {
    const Range places{0, 16};
    std::size_t next = 0;
    const auto micro_steps = run.plan().rank_steps(places, world().rank());
    return runner.run(
        sampler, [&] { return run.parts().train_data.batch(sampler.samples(0, micro_steps[next++].places)); }, 0,
        places, 0, 0.05);
  };
  EXPECT_TRUE(step().overflowed);
  EXPECT_EQ(runner.loss_scaler()->state(), (LossScalerState{.scale = 0x1p23, .good_steps = 0}));
  EXPECT_EQ(largest_difference(run.weights(), before), 0);
  EXPECT_EQ(run.parts().optimizer.steps(), 0);
  int overflows = 1;
  while (step().overflowed) ++overflows;
  EXPECT_GT(overflows, 1);
  EXPECT_LT(overflows, 20);
  EXPECT_EQ(run.parts().optimizer.steps(), 1);
  EXPECT_GT(largest_difference(run.weights(), before), 0);
}

// The scale is a power of two: but for rounding to fp16 it changes nothing.
TEST(StepRunner, Fp16TrainsLikeFp64) {
  SmallJob job;
  SmallRun exact(world(), job);
  exact.run();
  job.options.sharding.param_dtype = "fp16";
  SmallRun narrow(world(), job);
  narrow.run();
  // Parameters of about 0.3 rounded to 11 bits in each of 12 steps of at most lr: 12 steps in an uncertain direction
  // bound the difference by 12 * 0.05; rounding keeps it far below.
  EXPECT_LT(largest_difference(narrow.weights(), exact.weights()), 0.1);
  EXPECT_NEAR(narrow.progress().test_loss, exact.progress().test_loss, 0.02);
}

// Collective. Newest first.
std::vector<std::int64_t> steps_in(const std::filesystem::path& directory) {
  world().barrier();
  std::vector<std::int64_t> steps;
  for (const auto& entry : checkpoint::list_checkpoints(directory)) steps.push_back(entry.step);
  world().barrier();
  return steps;
}

TEST(Trainer, SavesAtTheStartWhereNothingIsResumed) {
  const SharedFolder folder(world());
  SmallJob job;
  job.options.checkpoint = {
      .directory = folder.path(), .every = "0", .keep = 5, .save_at_start = true, .resume = "auto"};
  job.options.run.max_steps = 3;
  SmallRun first(world(), job);
  first.run();
  EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{3, 0}));
  if (world().rank() == 0) std::filesystem::remove_all(folder.path() / "step_00000003");
  world().barrier();
  SmallRun resumed(world(), job);  // from step 0, which is not saved again
  resumed.run();
  EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(checkpoint::read_manifest(folder.path() / "step_00000000").sequence, 1);
  EXPECT_EQ(largest_difference(resumed.weights(), first.weights()), 0);
}

TEST(Trainer, KeepsMultiplesForEver) {
  const SharedFolder folder(world());
  SmallJob job;
  job.options.checkpoint = {
      .directory = folder.path(), .every = "1", .keep = 1, .keep_every = 2, .save_at_start = true, .resume = "auto"};
  job.options.run.max_steps = 5;
  SmallRun(world(), job).run();
  EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{5, 4, 2}));
}

}  // namespace
}  // namespace shoal::train
