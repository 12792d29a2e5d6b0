// --deterministic: losses and weights are the same to the last bit on 1, 2 and 4 ranks, within one job of four.
#include <gtest/gtest.h>

#include "comm/mpi_process_group.h"
#include "core/error.h"
#include "train/harness.h"

namespace shoal::train {
namespace {

comm::ProcessGroup& world() {
  static comm::MpiProcessGroup* group = new comm::MpiProcessGroup(MPI_COMM_WORLD);  // MPI ends before static objects
  return *group;
}

// 50 samples in steps of 16 and micro-batches of 3: six of them a step, of which the last is small, and one in the
// epoch's last step. Dropout, clipping and momenta included.
SmallJob make_job() {
  SmallJob job;
  job.dropout = 0.25;
  job.options.run.deterministic = true;
  job.options.run.max_steps = 10;
  job.options.batch = {.batch_size = 3, .global_batch_size = 16, .deterministic = true};
  job.options.optimizer.clip_grad_norm = 0.1;
  return job;
}

struct Result {
  Weights weights;
  double loss_sum = 0;  // of the steps since the last epoch's end
};

// What the first `ranks` ranks come to; empty on the others.
Result train_on(int ranks, const SmallJob& job) {
  Result result;
  const auto group = world().split(world().rank() < ranks ? 0 : 1);
  if (world().rank() < ranks) {
    SmallRun run(*group, job);
    EXPECT_EQ(run.run(), Outcome::finished);
    result.weights = run.weights();
    result.loss_sum = run.progress().epoch_loss_sum;
  }
  world().barrier();
  return result;
}

void expect_equal_bits(const SmallJob& job) {
  const Result one = train_on(1, job);
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const Result some = train_on(ranks, job);
    if (world().rank() != 0) continue;
    EXPECT_GT(one.loss_sum, 0);
    EXPECT_EQ(some.loss_sum, one.loss_sum);
    for (const auto& [name, tensor] : one.weights) EXPECT_TRUE(torch::equal(some.weights.at(name), tensor)) << name;
  }
}

TEST(Deterministic, EveryStrategyGivesTheSameBits) {
  for (const char* strategy : {"full_shard", "shard_grad_op", "no_shard"}) {
    SCOPED_TRACE(strategy);
    SmallJob job = make_job();
    job.options.sharding.strategy = strategy;
    expect_equal_bits(job);
  }
}

TEST(Deterministic, WithoutTheOptionTheBitsDiffer) {
  SmallJob job = make_job();
  job.options.run.deterministic = job.options.batch.deterministic = false;
  job.dropout = 0;
  const Result one = train_on(1, job), four = train_on(4, job);
  if (world().rank() != 0) return;
  // Else the test above would show nothing.
  EXPECT_GT(largest_difference(one.weights, four.weights), 0);
  EXPECT_LT(largest_difference(one.weights, four.weights), 1e-9);
}

TEST(Deterministic, EveryWayToAccumulateDoes) {
  for (const char* mode : {"reduce", "defer"}) {
    SCOPED_TRACE(mode);
    SmallJob job = make_job();
    job.options.sharding.accumulate_mode = mode;
    expect_equal_bits(job);
  }
}

TEST(Deterministic, AStopInTheMiddleChangesNoBit) {
  SmallJob job = make_job();
  const Result whole = train_on(1, job);
  const SharedFolder folder(world());
  job.options.checkpoint.directory = folder.path();
  job.options.run.max_steps = 6;
  train_on(4, job);
  job.options.run.max_steps = 10;
  const Result restarted = train_on(2, job);
  if (world().rank() != 0) return;
  EXPECT_EQ(restarted.loss_sum, whole.loss_sum);
  for (const auto& [name, tensor] : whole.weights)
    EXPECT_TRUE(torch::equal(restarted.weights.at(name), tensor)) << name;
}

TEST(Deterministic, ThreeRanksAreRefused) {
  EXPECT_THROW(plan_batches({.batch_size = 3, .global_batch_size = 16, .deterministic = true}, 3, 8), OptionError);
}

}  // namespace
}  // namespace shoal::train
