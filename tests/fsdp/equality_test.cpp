// n ranks = 1 rank = plain LibTorch: losses, gradient norms and weights, for every strategy, wrap policy and kind of
// module. In double precision the sums differ only in their order, so the tolerance is a few thousand roundings.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "fsdp/harness.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

constexpr double kTolerance = 1e-12;
using fsdp::Strategy;

struct Case {
  const char* name;
  MakeModel make;
};

const std::vector<Case>& models() {
  static const std::vector<Case> all{{"mlp", make_mlp},       {"tied", make_tied},   {"frozen", make_frozen},
                                     {"unused", make_unused}, {"twice", make_twice}, {"tiny", make_tiny},
                                     {"conv", make_conv}};
  return all;
}

// Policies that fit any of the models.
std::vector<std::string> policies(const std::string& model) {
  if (model == "tiny") return {"none"};
  if (model == "conv") return {"none", "name:fc", "name:*"};
  return {"none", "class:Block", "class:Block,LayerNorm", "size:50", "name:**"};
}

void check(comm::ProcessGroup& world, const Job& job, const Sharding& sharding, const TrainResult& plain,
           double tolerance) {
  const TrainResult result = train_sharded(world, job, sharding);
  SCOPED_TRACE(fmt::format("{} ranks, {}, wrap {}", world.size(), fsdp::name_of(sharding.strategy), sharding.wrap));
  expect_same(plain, result, tolerance);
}

TEST(Equality, EveryStrategyAndPolicyOnEveryModel) {
  for (const Case& model : models()) {
    SCOPED_TRACE(model.name);
    const Job job{.make = model.make};
    const TrainResult plain = train_plain(job);
    on_ranks([&](comm::ProcessGroup& world) {
      for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard})
        for (const std::string& wrap : policies(model.name))
          check(world, job, {.strategy = strategy, .wrap = wrap}, plain, kTolerance);
    });
  }
}

// replicate x shard: ranks x 1, …, 1 x ranks.
void check_every_mesh_of(int ranks) {
  const Job job{.make = make_mlp};
  const TrainResult plain = train_plain(job);
  on_ranks(ranks, [&](comm::ProcessGroup& world) {
    for (int shard = 1; shard <= ranks; shard *= 2)
      for (const Strategy strategy : {Strategy::hybrid_shard, Strategy::hybrid_shard_zero2})
        check(world, job, {.strategy = strategy, .wrap = "class:Block", .shard_size = shard}, plain, kTolerance);
  });
}

TEST(Equality, EveryMeshOfFourRanks) { check_every_mesh_of(4); }
TEST(Equality, EveryMeshOfEightRanks) { check_every_mesh_of(8); }

// Whole units are kept among two ranks from forward to backward: of four, of each half of four, by every policy.
TEST(Equality, RegatheredInASmallerGroup) {
  for (const Case& model : models()) {
    SCOPED_TRACE(model.name);
    const Job job{.make = model.make, .accumulate = 2};
    const TrainResult plain = train_plain(job);
    on_ranks(4, [&](comm::ProcessGroup& world) {
      for (const std::string& wrap : policies(model.name))
        check(world, job, {.wrap = wrap, .regather_size = 2}, plain, kTolerance);
      check(world, job, {.strategy = Strategy::hybrid_shard, .shard_size = 4, .prefetch = 2, .regather_size = 2}, plain,
            kTolerance);
    });
  }
}

TEST(Equality, MixedDtypesInOneUnit) {
  const Job job{.make = make_mixed_dtypes};
  const TrainResult plain = train_plain(job);
  on_ranks([&](comm::ProcessGroup& world) {
    for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard})
      check(world, job, {.strategy = strategy, .wrap = "class:Block"}, plain, 1e-5);  // float32 takes part
  });
}

TEST(Equality, SinglePrecision) {
  const Job job{.make = make_mlp, .dtype = at::kFloat};
  const TrainResult plain = train_plain(job);
  on_ranks([&](comm::ProcessGroup& world) { check(world, job, {.wrap = "class:Block"}, plain, 2e-5); });
}

TEST(Equality, SixteenBitParametersKeepSinglePrecisionMasters) {
  // Every step is below half a unit in the last place of the weights: bfloat16 arithmetic would leave them where they
  // are, masters add the steps up.
  Job job{.make = make_mlp, .dtype = at::kBFloat16, .steps = 0, .lr = 1e-4, .optimizer = "sgd"};
  on_ranks([&](comm::ProcessGroup& world) {
    const auto head = [&](int steps) {
      Job copy = job;
      copy.steps = steps;
      return train_sharded(world, copy, {.wrap = "class:Block"}).weights.at("head.weight");
    };
    const at::Tensor start = head(0), one = head(1), many = head(40);
    EXPECT_EQ(many.scalar_type(), at::kBFloat16);
    EXPECT_LT(start.ne(one).sum().item<std::int64_t>(), start.numel() / 4);
    EXPECT_GT(start.ne(many).sum().item<std::int64_t>(), start.numel() / 2);
  });
}

TEST(Equality, EveryOptimizerOnUnevenBatches) {
  for (const std::string optimizer : {"sgd", "adamw", "adadelta"}) {
    const Job job{.make = make_mlp, .batch = 11, .steps = 5, .lr = 0.01, .optimizer = optimizer};
    const TrainResult plain = train_plain(job);
    on_ranks([&](comm::ProcessGroup& world) { check(world, job, {.wrap = "class:Block"}, plain, kTolerance); });
  }
}

TEST(Equality, AccumulationEqualsTheWholeBatch) {
  for (const int parts : {2, 4}) {
    const Job job{.make = make_mlp, .batch = 40, .accumulate = parts};
    const TrainResult plain = train_plain(job);
    on_ranks([&](comm::ProcessGroup& world) {
      for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard})
        check(world, job, {.strategy = strategy, .wrap = "class:Block"}, plain, kTolerance);
    });
  }
}

TEST(Equality, ClippingEqualsTheUnshardedNorm) {
  const Job job{.make = make_mlp, .clip = 0.05};
  const TrainResult plain = train_plain(job);
  ASSERT_GT(plain.norms[0], job.clip);  // else nothing is clipped
  on_ranks([&](comm::ProcessGroup& world) {
    for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard})
      check(world, job, {.strategy = strategy, .wrap = "class:Block"}, plain, kTolerance);
  });
}

TEST(Equality, PrefetchChangesNoBit) {
  const Job job{.make = make_twice, .dtype = at::kFloat, .steps = 4};
  on_ranks([&](comm::ProcessGroup& world) {
    const TrainResult without = train_sharded(world, job, {.wrap = "class:Block", .prefetch = 0});
    for (const int depth : {1, 2, 5})
      expect_same(without, train_sharded(world, job, {.wrap = "class:Block", .prefetch = depth}), 0);
  });
}

TEST(Equality, OneRankIsPlainLibTorchToTheBit) {
  // The same sums in the same order: FSDP itself adds no rounding. Powers of two as batch and learning rate
  // make the products exact, wherever they are taken and whether or not they are fused with a sum.
  const Job job{.make = make_mlp, .dtype = at::kFloat, .batch = 8, .lr = 0.125, .optimizer = "sgd"};
  const TrainResult plain = train_plain(job);
  on_ranks(1, [&](comm::ProcessGroup& world) {
    const TrainResult result = train_sharded(world, job, {.strategy = Strategy::full_shard, .wrap = "class:Block"});
    for (const auto& [name, weight] : plain.weights) EXPECT_TRUE(weight.equal(result.weights.at(name))) << name;
  });
}

}  // namespace
}  // namespace shoal::testing
