// Stopped on N ranks and continued on M, for all N and M in 1 … 8, within one job of eight: a group of the first N
// ranks trains and is stopped, a group of the first M goes on.
#include <gtest/gtest.h>

#include "comm/mpi_process_group.h"
#include "core/error.h"
#include "train/agreement.h"
#include "train/harness.h"

namespace shoal::train {
namespace {

constexpr int kMostRanks = 8;

comm::ProcessGroup& world() {
  static comm::MpiProcessGroup* group = new comm::MpiProcessGroup(MPI_COMM_WORLD);  // MPI ends before static objects
  return *group;
}

// Collective over the world: the first `ranks` ranks run `body`, the others wait.
void on_first(int ranks, const std::function<void(comm::ProcessGroup&)>& body) {
  const auto group = world().split(world().rank() < ranks ? 0 : 1);
  if (world().rank() < ranks) body(*group);
  world().barrier();
}

SmallJob job_in(const std::filesystem::path& folder, double dropout) {
  SmallJob job;
  job.dropout = dropout;
  job.options.checkpoint.directory = folder;
  return job;
}

// Weights of a run without a stop, on the ranks that took part.
Weights uninterrupted(int ranks, double dropout) {
  Weights weights;
  on_first(ranks, [&](comm::ProcessGroup& group) {
    SmallJob job;
    job.dropout = dropout;
    SmallRun run(group, job);
    run.run();
    weights = run.weights();
  });
  return weights;
}

// Stops after `steps` steps, as a signal on one rank alone would do it.
void train_until_stopped(int ranks, const SmallJob& job, std::int64_t steps) {
  on_first(ranks, [&](comm::ProcessGroup& group) {
    SmallRun run(group, job);
    const bool receives = group.rank() == group.size() - 1;
    std::int64_t asked = 0;
    EXPECT_EQ(run.run([&] { return receives && ++asked >= steps ? 15 : 0; }), Outcome::stopped);
    EXPECT_EQ(run.progress().step, steps);
  });
}

Weights continue_on(int ranks, const SmallJob& job) {
  Weights weights;
  on_first(ranks, [&](comm::ProcessGroup& group) {
    SmallRun run(group, job);
    EXPECT_EQ(run.run(), Outcome::finished);
    EXPECT_EQ(run.progress().step, 12);
    weights = run.weights();
  });
  return weights;
}

// Of weights that the first `ranks` ranks have.
double difference_on(int ranks, const Weights& a, const Weights& b) {
  return world().rank() < ranks ? largest_difference(a, b) : 0;
}

TEST(Restart, OnTheSameRanksEveryBitIsTheSame) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    const Weights expected = uninterrupted(ranks, 0.5);
    for (const std::int64_t stop : {1, 4, 6, 11}) {  // at the start, at the end and in the middle of epochs
      SCOPED_TRACE(fmt::format("{} ranks, stopped after {} steps", ranks, stop));
      const SharedFolder folder(world());
      const SmallJob job = job_in(folder.path(), 0.5);
      train_until_stopped(ranks, job, stop);
      const Weights continued = continue_on(ranks, job);
      EXPECT_EQ(difference_on(ranks, continued, expected), 0);
    }
  }
}

// Without dropout, whose masks belong to ranks, the number of ranks changes rounding alone.
TEST(Restart, FromAnyNumberOfRanksToAnyOther) {
  const Weights expected = uninterrupted(kMostRanks, 0);
  for (int before = 1; before <= kMostRanks; ++before) {
    const SharedFolder folder(world());
    const SmallJob stopped = job_in(folder.path() / "stopped", 0);
    train_until_stopped(before, stopped, 6);
    for (int after = 1; after <= kMostRanks; ++after) {
      SCOPED_TRACE(fmt::format("{} ranks, then {}", before, after));
      SmallJob job = job_in(folder.path() / fmt::format("after_{}", after), 0);
      job.options.checkpoint.resume = stopped.options.checkpoint.directory;
      const Weights continued = continue_on(after, job);
      EXPECT_LT(difference_on(after, continued, expected), 1e-9);
    }
  }
}

struct WayToShard {
  const char* strategy;
  int shard_size;
  const char* offload;
  int files;
  int ranks;
  const char* wrap = "size:20";
};

// A checkpoint says nothing of how the job that wrote it held its state. Each restore compares the checksums of whole
// tensors in memory with those of the files; what comes after it is that of a run without a stop.
TEST(Restart, FromAnyWayToShardToAnyOther) {
  const Weights expected = uninterrupted(kMostRanks, 0);
  const std::vector<WayToShard> ways{
      {"full_shard", 0, "none", 0, 4},         {"no_shard", 0, "none", 1, 4},
      {"hybrid_shard", 2, "none", 2, 4},       {"shard_grad_op", 0, "optimizer", 0, 3},
      {"full_shard", 0, "params", 2, 5},       {"hybrid_shard_zero2", 3, "none", 0, 6},
      {"full_shard", 0, "none", 0, 4, "none"}, {"full_shard", 0, "none", 1, 3, "none+rest:40"}};
  const auto set = [](SmallJob& job, const WayToShard& way) {
    job.options.sharding.strategy = way.strategy;
    job.options.sharding.shard_size = way.shard_size;
    job.options.sharding.offload = way.offload;
    job.options.sharding.wrap = way.wrap;
    job.options.checkpoint.files = way.files;
  };
  for (const WayToShard& before : ways) {
    const SharedFolder folder(world());
    SmallJob stopped = job_in(folder.path() / "stopped", 0);
    set(stopped, before);
    train_until_stopped(before.ranks, stopped, 6);
    for (const WayToShard& after : ways) {
      SCOPED_TRACE(fmt::format(
          "{} with offload {} and units {} on {} ranks, then {} with offload {} and units {} on {}", before.strategy,
          before.offload, before.wrap, before.ranks, after.strategy, after.offload, after.wrap, after.ranks));
      SmallJob job = job_in(folder.path() / fmt::format("{}_{}_{}", after.strategy, after.offload, after.wrap), 0);
      set(job, after);
      job.options.checkpoint.resume = stopped.options.checkpoint.directory;
      const Weights continued = continue_on(after.ranks, job);
      EXPECT_LT(difference_on(after.ranks, continued, expected), 1e-9);
    }
  }
}

TEST(Restart, AChainOfStopsIsOneRun) {
  const Weights expected = uninterrupted(kMostRanks, 0);
  const SharedFolder folder(world());
  const SmallJob job = job_in(folder.path(), 0);
  train_until_stopped(2, job, 1);
  on_first(5, [&](comm::ProcessGroup& group) {
    SmallRun run(group, job);
    std::int64_t asked = 0;
    EXPECT_EQ(run.run([&] { return ++asked >= 6 ? 10 : 0; }), Outcome::stopped);
    EXPECT_EQ(run.progress().step, 7);
  });
  const Weights continued = continue_on(3, job);
  EXPECT_LT(difference_on(3, continued, expected), 1e-9);
}

TEST(Restart, AnFp16RunGoesOnWithItsLossScale) {
  const SharedFolder folder(world());
  SmallJob job = job_in(folder.path() / "whole", 0.5);
  job.options.sharding.param_dtype = "fp16";
  const Weights expected = continue_on(2, job);
  job.options.checkpoint.directory = folder.path() / "stopped";
  train_until_stopped(2, job, 6);
  on_first(2, [&](comm::ProcessGroup& group) {
    SmallRun run(group, job);
    EXPECT_EQ(run.run(), Outcome::finished);
    ASSERT_TRUE(run.progress().loss_scaler.has_value());
    EXPECT_EQ(run.progress().loss_scaler->good_steps, 12) << "those before the stop count";
    EXPECT_EQ(largest_difference(run.weights(), expected), 0);
  });
}

TEST(Restart, AFinishedRunHasNothingToDo) {
  const SharedFolder folder(world());
  const SmallJob job = job_in(folder.path(), 0);
  const Weights first = continue_on(3, job), again = continue_on(3, job);
  EXPECT_EQ(difference_on(3, first, again), 0);
}

TEST(Restart, NeverDoesNotDisplaceWhatIsThere) {
  const SharedFolder folder(world());
  SmallJob job = job_in(folder.path(), 0);
  train_until_stopped(2, job, 2);
  job.options.checkpoint.resume = "never";
  on_first(2, [&](comm::ProcessGroup& group) {
    SmallRun run(group, job);
    EXPECT_THROW(run.run(), AgreedError);
  });
}

}  // namespace
}  // namespace shoal::train
