// Offload on CPU ranks, where another part of the CPU's memory stands for the device: everything is copied to and fro,
// stepped in the background and waited for as beside a GPU, and no bit may change.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "fsdp/harness.h"
#include "fsdp/micro_steps.h"
#include "fsdp/offload_worker.h"
#include "fsdp/runtime.h"
#include "optim/in_parallel.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::Offload;
using fsdp::Strategy;

fsdp::FullyShardOptions offloading(Offload offload, fsdp::FullyShardOptions options) {
  options.offload = offload;
  options.offload_on_cpu = test_device().is_cpu();
  return options;
}

void expect_same_result(const MicroResult& a, const MicroResult& b) {
  if (test_device().is_cpu()) {
    EXPECT_EQ(a.norms, b.norms);
    expect_same_bits(a.gradients, b.gradients);
    expect_same_bits(a.masters, b.masters);
  } else {  // two processors divide by gradients that may be small
    EXPECT_LE(largest_difference(a.masters, b.masters), 1e-4);
  }
}

void check_job(comm::ProcessGroup& world, MicroJob job) {
  const fsdp::FullyShardOptions options = job.options;
  const MicroResult without = train_micro(world, job);
  for (const Offload offload : {Offload::optimizer, Offload::params}) {
    SCOPED_TRACE(offload == Offload::optimizer ? "optimizer" : "params");
    job.options = offloading(offload, options);
    expect_same_result(train_micro(world, job), without);
  }
}

// Replicas sum each micro-step's gradient: what is offloaded cannot be sent to them later, and sums have one order.
TEST(Offload, ChangesNoBitInAnyStrategyAndPrecision) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard})
      for (const auto& options : {fsdp::FullyShardOptions(), policy(at::kBFloat16, at::kFloat)})
        check_job(world, {.steps = 3,
                          .optimizer = "adamw",
                          .strategy = strategy,
                          .options = options,
                          .accumulation = Accumulation::reduce});
    check_job(world, {.steps = 3, .optimizer = "adadelta", .options = policy(at::kHalf, at::kHalf)});
    check_job(world, {.dtype = at::kDouble, .steps = 3, .optimizer = "adam"});
  });
}

TEST(Offload, ChangesNoBitOfReplicas) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    check_job(world, {.micro_batches = 8,
                      .optimizer = "adamw",
                      .strategy = Strategy::hybrid_shard,
                      .shard_size = 2,
                      .options = policy(at::kBFloat16, at::kFloat),
                      .accumulation = Accumulation::reduce});
  });
}

TEST(Offload, ChangesNoBitOfAccumulation) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const Accumulation how : {Accumulation::reduce, Accumulation::defer, Accumulation::keep})
      for (const fsdp::FullyShardOptions& options : {fsdp::FullyShardOptions{}, policy(at::kBFloat16, at::kFloat)})
        check_job(world,
                  {.micro_batches = 3 * world.size(), .optimizer = "adamw", .options = options, .accumulation = how});
  });
}

TEST(Offload, ChangesNoBitOfUnusedFrozenTiedAndMixedParameters) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const MakeModel make : {make_unused, make_frozen, make_tied, make_twice})
      check_job(world, {.make = make, .steps = 3, .optimizer = "adamw"});
    check_job(world, {.make = make_tiny, .steps = 3, .optimizer = "adamw", .wrap = "none"});
  });
}

// What is asked for right after step() waits for it.
TEST(Offload, StatesAndParametersAreThoseAfterTheStep) {
  on_ranks([](comm::ProcessGroup& world) {
    std::vector<Weights> masters, moments, gathered;
    for (const Offload offload : {Offload::none, Offload::optimizer, Offload::params}) {
      Sharded s = shard(world, make_mlp, "class:Block", offloading(offload, policy(at::kBFloat16, at::kFloat)));
      fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "adamw"}));
      for (int step = 0; step < 2; ++step) {
        const at::Tensor x = at::ones({2, 6}, at::TensorOptions(test_device()).dtype(at::kBFloat16));
        s.fsdp->run([&] { s.model.forward(x).to(at::kFloat).sum().backward(); });
        optimizer.step(0.125, 0.5);
        moments.push_back(whole_tensors(world, optimizer.state_dict(), "optimizer/exp_avg/"));
        masters.push_back(whole_masters(world, *s.fsdp));
        gathered.push_back(whole_weights(*s.fsdp, *s.model.module));
        s.fsdp->zero_grad();
      }
    }
    if (!test_device().is_cpu()) return;
    for (const std::size_t i : {0, 1})
      for (const std::size_t other : {2, 4}) {
        expect_same_bits(moments[i], moments[i + other]);
        expect_same_bits(masters[i], masters[i + other]);
        expect_same_bits(gathered[i], gathered[i + other]);
      }
  });
}

// A step may be the last that happens to an optimizer, or be followed by none of a module's runs.
TEST(Offload, TheOptimizerMayGoWhileItsStepIsOnItsWay) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp, "class:Block", offloading(Offload::optimizer, {}));
    const Weights before = whole_masters(world, *s.fsdp);
    {
      fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "sgd"}));
      s.fsdp->run([&] {
        s.model.forward(at::ones({2, 6}, at::TensorOptions(test_device()).dtype(at::kDouble))).sum().backward();
      });
      optimizer.step(0.5, 1);
      optimizer.step(0.5, 1);  // without gradients: nothing
    }
    EXPECT_GT(largest_difference(before, whole_masters(world, *s.fsdp)), 0);
  });
}

TEST(OffloadWorker, DoesJobsInOrderAndWaitsForOne) {
  std::vector<int> done;
  std::atomic<bool> go = false;
  {
    fsdp::OffloadWorker worker;
    worker.give([&] {
      while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      done.push_back(1);
    });
    const std::int64_t second = worker.give([&] { done.push_back(2); });
    EXPECT_TRUE(done.empty());
    go = true;
    worker.wait(second);
    EXPECT_EQ(done, (std::vector<int>{1, 2}));
    worker.give([&] { done.push_back(3); });
  }
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3}));
}

TEST(OffloadWorker, ThrowsWhatAJobThrewAndDoesNoMore) {
  bool went_on = false;
  fsdp::OffloadWorker worker;
  const std::int64_t good = worker.give([] {});
  worker.wait(good);
  const std::int64_t bad = worker.give([] { throw std::runtime_error("no more memory"); });
  const std::int64_t after = worker.give([&] { went_on = true; });
  EXPECT_THROW(worker.wait(bad), std::runtime_error);
  EXPECT_THROW(worker.wait(after), std::runtime_error);
  EXPECT_FALSE(went_on);
}

TEST(InParallel, CoversARangeOnceAndLetsExceptionsOut) {
  for (const std::int64_t count : {0, 1, 7, 1000}) {
    std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
    optim::in_parallel(count, 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
    });
    for (const auto& t : times) EXPECT_EQ(t, 1);
  }
  EXPECT_THROW(optim::in_parallel(10, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("no"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace shoal::testing
