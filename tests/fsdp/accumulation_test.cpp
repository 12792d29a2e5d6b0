// Gradients over several run()s: reduced each time, summed over replicas at the end, or kept whole until the last.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "fsdp/counting_group.h"
#include "fsdp/micro_steps.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::Strategy;

at::Tensor input() { return at::ones({2, 7}, at::TensorOptions(test_device()).dtype(at::kDouble)); }

// Uses the blocks of an MLP in the order given.
at::Tensor pass(torch::nn::Module& module, const std::vector<int>& blocks) {
  at::Tensor x = input();
  for (const int i : blocks) x = module.named_modules()["blocks." + std::to_string(i)]->as<Block>()->forward(x);
  return x.square().sum();
}

// What plain LibTorch adds up over passes of one rank.
Weights plain_gradients(const std::vector<std::vector<int>>& passes) {
  TestModel plain = make_mlp();
  fill_parameters(*plain.module);
  plain.module->to(test_device());
  for (const auto& blocks : passes) pass(*plain.module, blocks).backward();
  Weights gradients;
  for (const auto& item : plain.module->named_parameters())
    gradients[item.key()] =
        (item.value().grad().defined() ? item.value().grad() : at::zeros_like(item.value())).detach().cpu();
  return gradients;
}

void expect_gradients(comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded, Weights expected) {
  for (auto& [name, value] : expected) value = value * world.size();  // every rank adds the same
  const double scale = largest_value(expected);
  EXPECT_LE(largest_difference(expected, whole_gradients(world, sharded)), 1e-13 * scale);
}

TEST(Accumulation, EveryModeAddsUpToTheSame) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the one rank that is compared with has no group for a GPU";
  for (const auto module_dtype : {at::kDouble, at::kFloat}) {
    MicroJob job{.dtype = module_dtype, .micro_batches = 10, .steps = 1};
    const MicroResult alone = train_micro_on_one_rank(job);
    // Ten terms in three orders: some roundings of the largest sum.
    const double half = module_dtype == at::kDouble ? 0x1p-53 : 0x1p-24;
    const double bound = 100 * half * largest_value(alone.gradients);
    on_ranks([&](comm::ProcessGroup& world) {
      for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard})
        for (const auto mode : {Accumulation::reduce, Accumulation::defer, Accumulation::keep}) {
          job.strategy = strategy;
          job.accumulation = mode;
          SCOPED_TRACE(fmt::format("{} ranks, {}, mode {}", world.size(), name_of(strategy), static_cast<int>(mode)));
          EXPECT_LE(largest_difference(alone.gradients, train_micro(world, job).gradients), bound);
        }
    });
  }
}

TEST(Accumulation, EveryModeOnHybridMeshes) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the one rank that is compared with has no group for a GPU";
  MicroJob job{.dtype = at::kDouble, .micro_batches = 10, .steps = 3, .strategy = Strategy::hybrid_shard};
  const MicroResult alone = train_micro_on_one_rank(job);
  on_ranks(4, [&](comm::ProcessGroup& world) {
    for (const int shard : {1, 2, 4})
      for (const auto mode : {Accumulation::reduce, Accumulation::defer, Accumulation::keep}) {
        MicroJob copy = job;
        copy.shard_size = shard;
        copy.accumulation = mode;
        const MicroResult result = train_micro(world, copy);
        EXPECT_LE(largest_difference(alone.masters, result.masters), 1e-12);
        for (std::size_t i = 0; i < result.norms.size(); ++i)
          EXPECT_NEAR(alone.norms[i], result.norms[i], 1e-12 * alone.norms[i]);
      }
  });
}

TEST(Accumulation, KeptGradientsAreSummedInTheTypeOfTheReduction) {
  on_ranks([](comm::ProcessGroup& world) {
    MicroJob job{.micro_batches = 3 * world.size(), .steps = 1};
    job.options.mixed_precision = {at::kBFloat16, at::kFloat, {}};
    const MicroResult reduced = train_micro(world, job);
    job.accumulation = Accumulation::keep;
    const MicroResult kept = train_micro(world, job);
    EXPECT_LE(largest_difference(reduced.gradients, kept.gradients),
              2 * job.micro_batches * 0x1p-24 * job.micro_batches * largest_value(reduced.gradients));
    job.options.mixed_precision.reduce_dtype = at::kBFloat16;
    const MicroResult rounded = train_micro(world, job);
    EXPECT_GT(largest_difference(reduced.gradients, rounded.gradients), 0x1p-14 * largest_value(reduced.gradients));
  });
}

TEST(Accumulation, WithoutSyncNothingIsReducedAndWithItOnce) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;  // nothing is sent
    TrafficByCall traffic;
    CountingGroup counting(device_world(world), traffic);
    TestModel model = prepared({});
    comm::DeviceMesh mesh(world, counting, world.size());
    auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("class:Block"), {});
    const auto run = [&](bool sync, int k) {
      traffic.clear();
      sharded->set_requires_gradient_sync(sync);
      sharded->run([&] { backward(model, {}, 0, k); });
    };
    run(false, 0);
    EXPECT_EQ(traffic.count("reduce_scatter"), 0U);
    EXPECT_EQ(traffic.count("all_reduce"), 0U);
    run(false, 1);
    EXPECT_EQ(traffic.count("reduce_scatter"), 0U);
    run(true, 2);
    std::int64_t shard_bytes = 0;
    sharded->runtime().for_each_flat(
        [&](const fsdp::FlatParameter& flat) { shard_bytes += 4 * flat.layout().shard_numel(); });
    EXPECT_EQ(traffic["reduce_scatter"].bytes, shard_bytes);
    EXPECT_EQ(sharded->unsynced_gradient_bytes(), shard_bytes * world.size());
  });
}

TEST(Accumulation, TheBytesKeptAreThoseOfTheReductionsType) {
  on_ranks([](comm::ProcessGroup& world) {
    fsdp::FullyShardOptions options;
    options.mixed_precision = {at::kBFloat16, at::kFloat, {}};
    Sharded s = shard(world, make_frozen, "class:Block", options);
    std::int64_t padded = 0;
    s.fsdp->runtime().for_each_flat(
        [&](const fsdp::FlatParameter& flat) { padded += flat.trained() ? flat.layout().padded_numel() : 0; });
    EXPECT_EQ(s.fsdp->unsynced_gradient_bytes(), 4 * padded);
  });
}

TEST(Accumulation, UnitsThatTheSyncingPassDoesNotUseAreReducedToo) {
  const std::vector<std::vector<int>> passes{{0, 1, 2}, {2, 0}, {1}};
  const Weights expected = plain_gradients(passes);
  on_ranks([&](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < passes.size(); ++i) {
        s.fsdp->set_requires_gradient_sync(i + 1 == passes.size());
        s.fsdp->run([&] { pass(*s.model.module, passes[i]).backward(); });
      }
      expect_gradients(world, *s.fsdp, expected);
      s.fsdp->zero_grad();
    }
  });
}

TEST(Accumulation, PassesWithAndWithoutSyncAndEvaluationsMayAlternate) {
  const Weights expected = plain_gradients({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}});
  on_ranks([&](comm::ProcessGroup& world) {
    fsdp::FullyShardOptions options;
    options.forward_prefetch = options.backward_prefetch = 2;
    Sharded s = shard(world, make_mlp, "class:Block", options);
    for (int round = 0; round < 3; ++round) {
      for (const bool sync : {false, true, true}) {
        s.fsdp->set_requires_gradient_sync(sync);
        s.fsdp->run([&] { pass(*s.model.module, {0, 1, 2}).backward(); });
        const torch::NoGradGuard no_grad;
        s.fsdp->run([&] { (void)pass(*s.model.module, {2, 1}); });
      }
      expect_gradients(world, *s.fsdp, expected);
      s.fsdp->zero_grad();
    }
  });
}

TEST(Accumulation, RanksOnDifferentPathsWithoutSyncAreNamed) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    s.fsdp->run([&] { pass(*s.model.module, {0, 1, 2}).backward(); });
    s.fsdp->set_requires_gradient_sync(false);
    try {
      s.fsdp->run([&] { pass(*s.model.module, world.rank() == 0 ? std::vector{0, 1} : std::vector{1, 0}).backward(); });
      ADD_FAILURE() << "no error";
    } catch (const CommunicationError& error) {
      EXPECT_NE(std::string(error.what()).find("different paths"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("blocks.1"), std::string::npos) << error.what();
    }
  });
}

TEST(Accumulation, AnExceptionDropsWhatWasKept) {
  const Weights expected = plain_gradients({{0, 1, 2}});
  on_ranks([&](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    s.fsdp->set_requires_gradient_sync(false);
    s.fsdp->run([&] { pass(*s.model.module, {0, 1, 2}).backward(); });
    EXPECT_THROW(s.fsdp->run([&] {
      (void)pass(*s.model.module, {0, 1, 2});
      throw std::runtime_error("in the middle");
    }),
                 std::runtime_error);
    s.fsdp->set_requires_gradient_sync(true);
    s.fsdp->run([&] { pass(*s.model.module, {0, 1, 2}).backward(); });
    expect_gradients(world, *s.fsdp, expected);
  });
}

TEST(Accumulation, AStepWithGradientsThatWereNotReducedIsAnError) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "sgd"}));
    s.fsdp->set_requires_gradient_sync(false);
    s.fsdp->run([&] { pass(*s.model.module, {0, 1, 2}).backward(); });
    EXPECT_THROW(s.fsdp->grad_norm(1.0), OptionError);
    EXPECT_THROW(optimizer.step(0.1, 1.0), OptionError);
    s.fsdp->zero_grad();
    EXPECT_EQ(s.fsdp->grad_norm(1.0), 0.0);
  });
}

TEST(Accumulation, ReplicasAreSummedInEachRunOrOnceAtTheEnd) {
  const Weights expected = plain_gradients({{0, 1, 2}, {0, 1, 2}});
  on_ranks(4, [&](comm::ProcessGroup& world) {
    TrafficByCall traffic;
    CountingGroup counting(device_world(world), traffic);
    TestModel model = make_mlp();
    fill_parameters(*model.module);
    model.module->to(test_device());
    comm::DeviceMesh mesh(world, counting, 2);
    auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("class:Block"), {});
    const int units = static_cast<int>(sharded->runtime().units().size());
    const auto run = [&](bool all_reduce) {
      traffic.clear();
      sharded->set_requires_all_reduce(all_reduce);
      sharded->run([&] { pass(*model.module, {0, 1, 2}).backward(); });
      return traffic["all_reduce"].calls;
    };
    EXPECT_EQ(run(true), units);
    EXPECT_EQ(run(true), units);
    traffic.clear();
    expect_gradients(world, *sharded, expected);
    EXPECT_EQ(traffic["all_reduce"].calls, 0);  // done already
    EXPECT_THROW(run(false), InternalError);    // would count the others' gradients twice
    sharded->zero_grad();
    EXPECT_EQ(run(false), 0);
    EXPECT_EQ(run(true), units);  // FSDP2's way: the last micro-step sums what all of them left
    expect_gradients(world, *sharded, expected);
  });
}

TEST(Accumulation, KeepingAllocatesNothingAfterTheFirstSteps) {
  on_ranks(3, [](comm::ProcessGroup& world) {
    fsdp::FullyShardOptions options;
    options.mixed_precision = {at::kBFloat16, at::kFloat, {}};
    Sharded s = shard(world, make_mlp, "class:Block", options);
    const auto step = [&] {
      for (const bool sync : {false, false, true}) {
        s.fsdp->set_requires_gradient_sync(sync);
        s.fsdp->run([&] {
          s.model.forward(at::ones({2, 6}, at::TensorOptions(test_device()).dtype(at::kBFloat16))).sum().backward();
        });
      }
      s.fsdp->zero_grad();
      return s.fsdp->runtime().pool_bytes();
    };
    step();
    const std::int64_t second = (step(), step());
    EXPECT_GE(second, s.fsdp->unsynced_gradient_bytes());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(step(), second);
  });
}

}  // namespace
}  // namespace shoal::testing
