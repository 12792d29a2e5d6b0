// The state dict, which is what a checkpoint is made of.
#include <gtest/gtest.h>

#include "fsdp/harness.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

// All elements of a tensor put together from the ranks' regions.
std::vector<double> assemble(comm::ProcessGroup& world, const ShardedTensor& t) {
  std::vector<double> whole(static_cast<std::size_t>(t.spec.numel()), 0.0);
  if (t.saves)
    for (std::int64_t i = 0; i < t.region.count; ++i)
      whole[t.region.begin + i] = reinterpret_cast<const double*>(t.region.data)[i];
  world.all_reduce(whole.data(), t.spec.numel(), DType::float64, comm::ReduceOp::sum)->wait();
  return whole;
}

TEST(State, RegionsOfAllRanksMakeUpTheWholeModelInItsOrder) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_tied);
    const StateDict state = s.fsdp->state_dict();
    const Weights weights = whole_weights(*s.fsdp, *s.model.module);
    std::vector<std::string> names;
    for (const ShardedTensor& t : state.tensors) {
      const std::string fqn = t.spec.name.substr(std::string("model/").size());
      names.push_back(fqn);
      const std::vector<double> whole = assemble(world, t);
      const at::Tensor expected = weights.at(fqn).flatten();
      ASSERT_EQ(static_cast<std::int64_t>(whole.size()), expected.numel());
      for (std::size_t i = 0; i < whole.size(); ++i)
        ASSERT_EQ(whole[i], expected[static_cast<std::int64_t>(i)].item<double>()) << fqn;
    }
    std::vector<std::string> expected;
    for (const auto& item : s.model.module->named_parameters())
      if (item.key() != "inner.tied") expected.push_back(item.key());
    EXPECT_EQ(names, expected);
    ASSERT_EQ(state.aliases.size(), 1u);
    EXPECT_EQ(state.aliases[0], std::make_pair(std::string("model/inner.tied"), std::string("model/embed.weight")));
  });
}

TEST(State, BytesAreThoseOfAllTensorsThatItNames) {
  on_ranks([](comm::ProcessGroup& world) {
    for (auto* const make : {make_mlp, make_tied, make_frozen, make_conv, make_mixed_dtypes}) {
      Sharded s = shard(world, make, "none");
      fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "adamw"}));
      const auto bytes_of = [](const StateDict& state) {
        std::int64_t bytes = 0;
        for (const ShardedTensor& tensor : state.tensors) bytes += tensor.spec.numel() * size_of(tensor.spec.dtype);
        return bytes;
      };
      EXPECT_EQ(s.fsdp->state_bytes(), bytes_of(s.fsdp->state_dict()));
      EXPECT_EQ(optimizer.state_bytes(), bytes_of(optimizer.state_dict()));
    }
  });
}

TEST(State, WhatIsLoadedIntoTheRegionsIsWhatTheModelUses) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    StateDict state = s.fsdp->state_dict();
    for (const ShardedTensor& t : state.tensors)
      for (std::int64_t i = 0; i < t.region.count; ++i)
        reinterpret_cast<double*>(t.region.data)[i] = static_cast<double>(t.region.begin + i);
    state.loaded();
    for (const auto& [name, value] : whole_weights(*s.fsdp, *s.model.module))
      EXPECT_TRUE(value.flatten().equal(at::arange(value.numel(), at::kDouble))) << name;
  });
}

TEST(State, TheOptimizersArraysAreCutLikeTheParameters) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_frozen);
    fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "adamw"}));
    const StateDict model = s.fsdp->state_dict(), state = optimizer.state_dict();
    std::size_t trained = 0;
    for (const ShardedTensor& t : model.tensors) {
      const std::string fqn = t.spec.name.substr(6);
      const bool frozen = fqn.starts_with("blocks.1") || fqn == "head.bias";
      trained += !frozen;
      int found = 0;
      for (const ShardedTensor& o : state.tensors) {
        if (o.spec.name != "optimizer/exp_avg/" + fqn && o.spec.name != "optimizer/exp_avg_sq/" + fqn) continue;
        ++found;
        EXPECT_EQ(o.rule, t.rule);
        EXPECT_EQ(o.spec.shape, t.spec.shape);
        EXPECT_EQ(o.region.count, t.region.count);
      }
      EXPECT_EQ(found, frozen ? 0 : 2) << fqn;
    }
    EXPECT_EQ(state.tensors.size(), 2 * trained);
  });
}

}  // namespace
}  // namespace shoal::testing
