// Recomputation changes no bit of losses, gradients, weights and buffers, and what is dropped is really gone.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "fsdp/recompute.h"
#include "fsdp/recompute_models.h"
#include "support/live_bytes.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

struct Result {
  std::vector<double> losses, norms;
  Weights weights;
};

// Threads share LibTorch's generators: there, only one rank can draw the same numbers twice.
bool has_own_generators(const comm::ProcessGroup& world) {
  return world.size() == 1 || std::string(world.backend()) != "fake";
}

Result train(comm::ProcessGroup& world, const MakeModel& make, const std::string& wrap, const std::string& policy,
             fsdp::FullyShardOptions options = {}) {
  options.activation_checkpoint = policy;
  Sharded s = shard(world, make, wrap, options);
  fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "sgd"}));
  Result result;
  for (int step = 0; step < 3; ++step) {
    const auto [x, y] = samples({.make = make}, step, 3 * (world.rank() % 4), 3);
    torch::manual_seed(static_cast<std::uint64_t>(100 * step + world.rank()));
    s.fsdp->run([&, x = x, y = y] {
      const at::Tensor loss = (s.model.forward(x) - y).square().sum();
      loss.backward();
      result.losses.push_back(loss.item<double>());
    });
    // Numbers that are drawn after the step are those of a run without recomputation, too.
    result.losses.push_back(torch::rand({}, at::kDouble).item<double>());
    result.norms.push_back(s.fsdp->grad_norm(1.0));
    optimizer.step(0.05, 1.0);
  }
  result.weights = whole_weights(*s.fsdp, *s.model.module);
  return result;
}

void expect_equal_bits(const Result& a, const Result& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, weight] : a.weights) EXPECT_TRUE(weight.equal(b.weights.at(name))) << name;
}

void expect_no_difference(comm::ProcessGroup& world, const MakeModel& make, const std::string& wrap,
                          const fsdp::FullyShardOptions& options = {}) {
  const Result none = train(world, make, wrap, "none", options);
  ASSERT_TRUE(std::isfinite(none.losses.back()));
  for (const char* const policy : {"every:1", "every:2", "full", "selective"}) {
    SCOPED_TRACE(fmt::format("{} ranks, wrap {}, {}", world.size(), wrap, policy));
    expect_equal_bits(none, train(world, make, wrap, policy, options));
  }
}

TEST(Recompute, EveryPolicyOnEveryModelToTheBit) {
  const std::vector<std::pair<MakeModel, std::string>> models{
      {make_mlp, "class:Block"},   {make_mlp, "class:Block,LayerNorm"}, {make_mlp, "name:**"},
      {make_tied, "class:Block"},  {make_frozen, "class:Block"},        {make_unused, "class:Block"},
      {make_conv, "name:*"},       {make_mixed_dtypes, "class:Block"},  {make_nested, "class:Outer,Block"},
      {make_nested, "class:Outer"}};
  on_ranks([&](comm::ProcessGroup& world) {
    if (!has_own_generators(world)) torch::manual_seed(1);
    for (const auto& [make, wrap] : models) {
      Result none = train(world, make, wrap, "none");
      for (const char* const policy : {"every:2", "full", "selective"}) {
        SCOPED_TRACE(fmt::format("{} ranks, wrap {}, {}", world.size(), wrap, policy));
        Result result = train(world, make, wrap, policy);
        if (!has_own_generators(world)) result.losses = none.losses;  // they hold random numbers
        expect_equal_bits(none, result);
      }
    }
  });
}

TEST(Recompute, AUnitUsedSeveralTimes) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    expect_no_difference(world, make_twice, "class:Block");
    expect_no_difference(world, make_again, "class:Block");
  });
}

TEST(Recompute, DropoutListsViewsAndInPlaceOperators) {
  on_ranks([](comm::ProcessGroup& world) {
    if (!has_own_generators(world)) return;
    expect_no_difference(world, make_attention, "class:Attention");
    fsdp::FullyShardOptions keep_whole;
    keep_whole.reshard_after_forward = false;
    expect_no_difference(world, make_attention, "class:Attention", keep_whole);
    expect_no_difference(world, make_attention, "size:100");
  });
}

TEST(Recompute, RunningStatisticsAreUpdatedOnce) {
  on_ranks([](comm::ProcessGroup& world) {
    if (has_own_generators(world)) expect_no_difference(world, make_batch_norm, "class:Normed");
  });
}

TEST(Recompute, OwnGeneratorsDrawTheSameAndMoveOnOnce) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    auto generator = at::detail::createCPUGenerator(5);
    const auto noisy = [&generator](const at::Tensor& normed, const at::Tensor& input) {
      return input + (normed + at::randn(normed.sizes(), generator, normed.options())).square();
    };
    Result results[2];
    at::Tensor next[2];
    for (const int i : {0, 1}) {
      generator.set_current_seed(5);
      results[i] = train(
          world, [&] { return make_with(noisy); }, "class:With", i == 0 ? "none" : "full");
      next[i] = at::randn({4}, generator);
    }
    expect_equal_bits(results[0], results[1]);
    EXPECT_TRUE(next[0].equal(next[1]));
  });
}

TEST(Recompute, SeveralForwardAndBackwardPassesInOneRun) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    Weights gradients[2];
    for (const int i : {0, 1}) {
      Sharded s = shard(world, make_mlp, "class:Block", {.activation_checkpoint = i == 0 ? "none" : "full"});
      const at::Tensor x = samples({.make = make_mlp}, 0, 0, 4).first;
      s.fsdp->run([&] {
        s.model.forward(x).sum().backward();
        const at::Tensor a = s.model.forward(x * 2).square().sum(), b = s.model.forward(x * 3).square().sum();
        {
          const torch::NoGradGuard evaluation;
          (void)s.model.forward(x);
        }
        b.backward();
        a.backward();
      });
      gradients[i]["norm"] = at::scalar_tensor(s.fsdp->grad_norm(1.0), at::kDouble);
    }
    EXPECT_TRUE(gradients[0]["norm"].equal(gradients[1]["norm"]));
  });
}

struct Memory {
  std::int64_t after_forward, peak, left;
};

// A step's activations on `rows` samples. Gradients and parameters are smaller by far.
Memory memory_of_step(comm::ProcessGroup& world, const std::string& policy, std::int64_t rows) {
  Sharded s = shard(world, make_mlp, "class:Block", {.activation_checkpoint = policy});
  const auto x = at::ones({rows, 6}, at::kDouble);
  const auto step = [&] { s.fsdp->run([&] { s.model.forward(x).sum().backward(); }); };
  step();
  s.fsdp->zero_grad();
  LiveBytes bytes;
  Memory memory{};
  s.fsdp->run([&] {
    at::Tensor loss = s.model.forward(x).sum();
    memory.after_forward = bytes.live();
    loss.backward();
  });
  memory.peak = bytes.peak();
  s.fsdp->zero_grad();
  memory.left = bytes.live();
  return memory;
}

TEST(Recompute, PeakMemoryIsInputsAndOneSegment) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    constexpr std::int64_t kRows = 20'000, kRow = kRows * 8;
    const Memory none = memory_of_step(world, "none", kRows), full = memory_of_step(world, "full", kRows);
    const Memory half = memory_of_step(world, "every:2", kRows), selective = memory_of_step(world, "selective", kRows);
    // A Block of width 7 saves its norm's result and two numbers a row, 14 of up and 14 of gelu: 37 a row.
    EXPECT_NEAR(static_cast<double>(none.after_forward - full.after_forward), 3.0 * 37 * kRow, 0.05 * 37 * kRow);
    EXPECT_NEAR(static_cast<double>(none.after_forward - half.after_forward), 1.0 * 37 * kRow, 0.05 * 37 * kRow);
    // Kept: 14 of up (what down gave is needed by nothing).
    EXPECT_NEAR(static_cast<double>(selective.after_forward - full.after_forward), 3.0 * 14 * kRow, 0.05 * 14 * kRow);
    // One Block's 37 at a time, with a gradient or two.
    EXPECT_LT(full.peak, full.after_forward + (37 + 14 + 14) * kRow);
    EXPECT_GT(none.peak, full.peak + 37 * kRow);
    for (const Memory& memory : {none, full, half, selective}) EXPECT_LT(memory.left, kRow);
  });
}

TEST(Recompute, OnlyTrainingPassesAreWrittenDown) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp, "class:Block", {.activation_checkpoint = "full"});
    const torch::NoGradGuard no_grad;
    LiveBytes bytes;
    s.fsdp->run([&] { (void)s.model.forward(at::ones({100, 6}, at::kDouble)); });
    EXPECT_EQ(bytes.live(), 0);
  });
}

TEST(Recompute, PoliciesAreParsed) {
  using fsdp::RecomputePolicy;
  EXPECT_EQ(RecomputePolicy::parse("none").every, 0);
  EXPECT_EQ(RecomputePolicy::parse("full").every, 1);
  EXPECT_EQ(RecomputePolicy::parse("every:12").every, 12);
  EXPECT_FALSE(RecomputePolicy::parse("every:12").selective);
  EXPECT_TRUE(RecomputePolicy::parse("selective").selective);
  for (const char* const wrong : {"", "all", "every", "every:", "every:0", "every:-1", "every:2x", "every:1.5", "Full"})
    try {
      RecomputePolicy::parse(wrong);
      ADD_FAILURE() << wrong;
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("--activation-checkpoint"), std::string::npos);
    }
}

}  // namespace
}  // namespace shoal::testing
