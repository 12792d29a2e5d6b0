// Parameter groups over shards: like a plain LibTorch optimizer with the same groups, wherever shards are cut; and the
// optimizer's step on the host with several threads.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "fsdp/harness.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

constexpr double kDecay = 0.1, kRate = 0.05;
constexpr int kSteps = 4;

const optim::OptimizerOptions kAdamW{.name = "adamw", .weight_decay = kDecay};

// No decay for norms and biases; the head learns at a fifth of the rate; blocks.1's projections decay more.
optim::ParameterGroups three_groups() {
  return optim::ParameterGroups::parse("auto", {"head.*:lr-scale=0.2", "blocks.1.*.weight:weight-decay=0.5"});
}

struct Expected {
  double weight_decay, lr;
};

Expected expected_of(const std::string& name, const at::Tensor& parameter) {
  if (name == "blocks.1.norm.weight" || name == "blocks.1.up.weight" || name == "blocks.1.down.weight")
    return {0.5, kRate};
  return {parameter.dim() < 2 ? 0 : kDecay, name.starts_with("head.") ? 0.2 * kRate : kRate};
}

Weights train_plain_groups(const Job& job) {
  const TestModel model = job.make();
  fill_parameters(*model.module);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& item : model.module->named_parameters()) {
    const auto [decay, lr] = expected_of(item.key(), item.value());
    groups.emplace_back(std::vector{item.value()}, std::make_unique<torch::optim::AdamWOptions>(
                                                       torch::optim::AdamWOptions(lr).weight_decay(decay)));
  }
  torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(kRate));
  for (int step = 0; step < kSteps; ++step) {
    const auto [x, y] = samples(job, step, 0, job.batch);
    optimizer.zero_grad();
    (model.forward(x) - y.to(at::kDouble)).square().sum().div(job.batch).backward();
    optimizer.step();
  }
  Weights weights;
  for (const auto& item : model.module->named_parameters()) weights[item.key()] = item.value().detach().clone();
  return weights;
}

Weights train_sharded_groups(comm::ProcessGroup& world, const Job& job, const std::string& wrap,
                             const optim::ParameterGroups& groups) {
  Sharded s = shard(world, job.make, wrap);
  fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer(kAdamW), groups);
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t begin = job.batch * world.rank() / world.size();
    const std::int64_t end = job.batch * (world.rank() + 1) / world.size();
    const auto [x, y] = samples(job, step, begin, end - begin);
    s.fsdp->run([&, x = x, y = y] { (s.model.forward(x) - y).square().sum().backward(); });
    optimizer.step(kRate, 1.0 / static_cast<double>(job.batch));
  }
  return whole_weights(*s.fsdp, *s.model.module);
}

TEST(ShardedParameterGroups, AreThoseOfAPlainOptimizer) {
  on_ranks([](comm::ProcessGroup& world) {
    if (!test_device().is_cpu()) return;  // the plain loop's samples are on the host
    const Job job{.make = make_mlp};
    const Weights expected = train_plain_groups(job);
    for (const char* wrap : {"none", "class:Block", "name:blocks.1.*"}) {
      SCOPED_TRACE(wrap);
      for (const auto& [name, weight] : train_sharded_groups(world, job, wrap, three_groups()))
        EXPECT_TRUE(at::allclose(weight, expected.at(name), 1e-12, 1e-13)) << name;
    }
  });
}

TEST(ShardedParameterGroups, ManyEqualGroupsAreOneToTheBit) {
  on_ranks([](comm::ProcessGroup& world) {
    const Job job{.make = make_mlp};
    // Every second parameter in a group of its own, which cuts the shards into spans, with the optimizer's own values.
    const auto cut = optim::ParameterGroups::parse("none", {"**.weight:weight-decay=0.1,lr-scale=1"});
    const Weights one = train_sharded_groups(world, job, "class:Block", {});
    for (const auto& [name, weight] : train_sharded_groups(world, job, "class:Block", cut))
      EXPECT_TRUE(at::equal(weight, one.at(name))) << name;
  });
}

TEST(ShardedParameterGroups, PrintALineEachWithTheWholeModelsNumbers) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    const fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer(kAdamW), three_groups());
    EXPECT_EQ(optimizer.print_groups(),
              "parameter group 1: 5 parameters, 434 elements, weight decay 0.1, learning rate x 1\n"
              "parameter group 2: 14 parameters, 119 elements, weight decay 0, learning rate x 1\n"
              "parameter group 3: 1 parameter, 35 elements, weight decay 0.1, learning rate x 0.2\n"
              "parameter group 4: 1 parameter, 5 elements, weight decay 0, learning rate x 0.2\n"
              "parameter group 5: 3 parameters, 203 elements, weight decay 0.5, learning rate x 1");
    const fsdp::ShardedOptimizer alike(*s.fsdp, optim::make_optimizer(kAdamW));
    EXPECT_EQ(alike.print_groups(), fmt::format("parameter group 1: {} parameters, {} elements, weight decay 0.1, "
                                                "learning rate x 1",
                                                s.model.module->named_parameters().size(), s.fsdp->parameter_count()));
  });
}

TEST(ShardedParameterGroups, ANameThatTakesNothingIsAnErrorOnEveryRank) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_frozen);
    const auto make = [&](const std::string& no_decay) {
      fsdp::ShardedOptimizer(*s.fsdp, optim::make_optimizer(kAdamW), optim::ParameterGroups::parse(no_decay, {}));
    };
    EXPECT_THROW(make("blocks.*.bias"), OptionError);
    EXPECT_NO_THROW(make("head.bias")) << "that it is frozen makes it no typo";
  });
}

// A layer large enough that its shard is cut into several pieces of work.
TestModel make_wide() {
  auto linear = std::make_shared<torch::nn::LinearImpl>(1200, 701);
  linear->to(at::kFloat);
  return {linear, [linear](at::Tensor x) { return linear->forward(std::move(x)); }};
}

Weights train_wide(comm::ProcessGroup& world, const std::string& optimizer_name, int step_threads) {
  Sharded s = shard(world, make_wide, "none");
  fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = optimizer_name, .weight_decay = 0.1}),
                                   optim::ParameterGroups::parse("auto", {}));
  for (int step = 0; step < 2; ++step) {
    const at::Tensor x = at::linspace(-1, 1, 1200).to(test_device()) * (step + 1);
    at::set_num_threads(1);
    s.fsdp->run([&] { s.model.forward(x).square().sum().backward(); });
    at::set_num_threads(step_threads);
    optimizer.step(kRate, 0.3);
  }
  return whole_weights(*s.fsdp, *s.model.module);
}

TEST(ShardedOptimizerThreads, ChangeNoBit) {
  on_ranks([](comm::ProcessGroup& world) {
    const int before = at::get_num_threads();
    for (const char* name : {"sgd", "adam", "adamw", "adadelta"}) {
      const Weights one = train_wide(world, name, 1);
      for (const auto& [parameter, weight] : train_wide(world, name, 3))
        EXPECT_TRUE(at::equal(weight, one.at(parameter))) << name << " " << parameter;
    }
    at::set_num_threads(before);
  });
}

}  // namespace
}  // namespace shoal::testing
