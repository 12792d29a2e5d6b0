// Deterministic sums: gradients, norms and weights that do not depend on the number of ranks, bit for bit.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "fsdp/micro_steps.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::Strategy;

MicroJob exact(int micro_batches, Strategy strategy = Strategy::full_shard, int shard_size = 0) {
  MicroJob job{.micro_batches = micro_batches, .optimizer = "adamw", .strategy = strategy, .shard_size = shard_size};
  job.options.deterministic = true;
  return job;
}

void expect_same_run(const MicroResult& a, const MicroResult& b) {
  expect_same_bits(a.gradients, b.gradients);
  expect_same_bits(a.masters, b.masters);
  EXPECT_EQ(a.norms, b.norms);
}

class Deterministic : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_device().is_cpu()) GTEST_SKIP() << "the one rank that is compared with has no group for a GPU";
  }
};

TEST_F(Deterministic, AnyPowerOfTwoOfRanksGivesTheSameBits) {
  for (int micro_batches = 1; micro_batches <= 8; ++micro_batches) {
    const MicroResult alone = train_micro_on_one_rank(exact(micro_batches));
    for (const int ranks : {1, 2, 4})
      on_ranks(ranks, [&](comm::ProcessGroup& world) {
        for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard}) {
          SCOPED_TRACE(fmt::format("{} micro-batches, {} ranks, {}", micro_batches, ranks, fsdp::name_of(strategy)));
          expect_same_run(alone, train_micro(world, exact(micro_batches, strategy)));
        }
      });
  }
}

TEST_F(Deterministic, EveryMeshOfFourRanksGivesTheSameBits) {
  for (const int micro_batches : {3, 8}) {
    const MicroResult alone = train_micro_on_one_rank(exact(micro_batches));
    on_ranks(4, [&](comm::ProcessGroup& world) {
      for (const int shard : {1, 2, 4})
        for (const auto accumulation : {Accumulation::reduce, Accumulation::defer}) {
          SCOPED_TRACE(fmt::format("{} micro-batches, shard groups of {}", micro_batches, shard));
          MicroJob job = exact(micro_batches, Strategy::hybrid_shard, shard);
          job.accumulation = accumulation;
          expect_same_run(alone, train_micro(world, job));
        }
    });
  }
}

TEST_F(Deterministic, SixteenBitParametersAreReducedInFullPrecision) {
  MicroJob job = exact(5);
  job.options.mixed_precision.param_dtype = at::kBFloat16;
  const MicroResult alone = train_micro_on_one_rank(job);
  for (const int ranks : {2, 4})
    on_ranks(ranks, [&](comm::ProcessGroup& world) { expect_same_run(alone, train_micro(world, job)); });
}

TEST_F(Deterministic, TiedFrozenAndUnusedParametersToo) {
  for (auto* const make : {make_tied, make_frozen, make_unused, make_twice}) {
    MicroJob job = exact(5);
    job.make = make;
    const MicroResult alone = train_micro_on_one_rank(job);
    for (const int ranks : {2, 4})
      on_ranks(ranks, [&](comm::ProcessGroup& world) { expect_same_run(alone, train_micro(world, job)); });
  }
}

// ((0 + 1) + (2 + 3)) + (4 + 5), the leaves being what each micro-batch gives alone.
TEST_F(Deterministic, TheSumIsTheTreeOverTheMicroBatches) {
  std::vector<Weights> leaf;
  for (int k = 0; k < 6; ++k) {
    MicroJob job = exact(6);
    job.steps = 1;
    job.counts = [k](int i) { return i == k; };
    leaf.push_back(train_micro_on_one_rank(job).gradients);
  }
  MicroJob job = exact(6);
  job.steps = 1;
  const Weights sum = train_micro_on_one_rank(job).gradients;
  for (const auto& [name, value] : sum) {
    const auto g = [&, &name = name](int k) { return leaf[static_cast<std::size_t>(k)].at(name); };
    EXPECT_TRUE(value.equal(((g(0) + g(1)) + (g(2) + g(3))) + (g(4) + g(5)))) << name;
  }
}

TEST_F(Deterministic, OtherNumbersOfRanksAreEqualToRounding) {
  const MicroResult alone = train_micro_on_one_rank(exact(6));
  on_ranks(3, [&](comm::ProcessGroup& world) {
    MicroJob job = exact(6);
    const MicroResult result = train_micro(world, job);
    // Six terms in another order: a few roundings of the largest.
    EXPECT_LE(largest_difference(alone.gradients, result.gradients), 12 * 0x1p-24 * 6 * largest_value(alone.gradients));
  });
}

TEST_F(Deterministic, GradientsAreNotKept) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    fsdp::FullyShardOptions options;
    options.deterministic = true;
    Sharded s = shard(world, make_mlp, "class:Block", options);
    EXPECT_THROW(s.fsdp->set_requires_gradient_sync(false), OptionError);
    s.fsdp->set_requires_gradient_sync(true);
  });
}

}  // namespace
}  // namespace shoal::testing
