// What a plan says beside what ranks on the CPU have, where activations are next to nothing: the sum is within 3 % of
// the peak for each strategy, precision and offload, there of device and host together. What a step sends is exact.
#include <gtest/gtest.h>

#include "fsdp/counting_group.h"
#include "fsdp/harness.h"
#include "fsdp/memory_plan.h"
#include "fsdp/runtime.h"
#include "fsdp/step_traffic.h"
#include "support/live_bytes.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::Offload;
using fsdp::Strategy;

constexpr std::int64_t kWidth = 96;

// Many parameters of one size: the gradient that autograd has at a time, which is in no plan, is a small part.
struct StackImpl : torch::nn::Module {
  StackImpl() {
    for (int i = 0; i < 12; ++i) layers->push_back(torch::nn::Linear(kWidth, kWidth));
    register_module("layers", layers);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = layer->as<torch::nn::Linear>()->forward(x).tanh();
    return x;
  }
  torch::nn::ModuleList layers;
};

struct TowerImpl : torch::nn::Module {
  TowerImpl() {
    for (int i = 0; i < 6; ++i)
      stacks.push_back(register_module("stack" + std::to_string(i), std::make_shared<StackImpl>()));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& stack : stacks) x = stack->forward(x);
    return x;
  }
  std::vector<std::shared_ptr<StackImpl>> stacks;
};

struct Case {
  Strategy strategy;
  std::optional<at::ScalarType> param_dtype;
  Offload offload;
};

fsdp::FullyShardOptions options_of(const Case& wanted) {
  fsdp::FullyShardOptions options;
  options.reshard_after_forward = fsdp::reshards_after_forward(wanted.strategy);
  options.mixed_precision.param_dtype = wanted.param_dtype;
  options.offload = wanted.offload;
  options.offload_on_cpu = true;
  options.check_replicas_at_start = false;  // sends messages of its own
  return options;
}

struct Measured {
  std::int64_t peak = 0;                    // of tensors, and of what groups gave out
  fsdp::MemoryPlan planned, built;          // before the module was sharded, and of what was made
  fsdp::StepTraffic sent, planned_traffic;  // of the last step
};

Measured measure(comm::ProcessGroup& world, const Case& wanted) {
  Measured result;
  const fsdp::FullyShardOptions options = options_of(wanted);
  const auto model = std::make_shared<TowerImpl>();
  const auto policy = fsdp::parse_wrap_policy("class:Stack");
  TrafficByCall traffic;
  CountingGroup counting_group(world, traffic);
  comm::DeviceMesh mesh(world, counting_group,
                        fsdp::shard_group_size(wanted.strategy, world.size(), world.size(), world.size() / 2));
  const auto sizes = fsdp::unit_sizes(*model, *policy, fsdp::shape_of(mesh), options, /*on_cpu=*/true);
  result.planned = fsdp::plan_of(sizes, fsdp::shape_of(mesh), options, 2, 0);
  result.planned_traffic = fsdp::step_traffic(sizes, fsdp::shape_of(mesh), options, 1, fsdp::Accumulation::none);

  LiveBytes live;
  const auto sharded = fsdp::fully_shard(model, mesh, *policy, options);
  const std::int64_t lent = traffic["allocate"].bytes;
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "adamw"}));
  result.built = fsdp::plan_of(*sharded, optimizer.states(), 0);
  const at::Tensor input = at::ones({1, kWidth}, wanted.param_dtype.value_or(at::kFloat));
  live.restart_peak();  // of the steps alone
  for (int step = 0; step < 3; ++step) {
    traffic.clear();
    sharded->run([&] { model->forward(input).sum().backward(); });
    optimizer.step(0.1, 1);
  }
  sharded->state_dict();  // waits for steps on the host
  result.peak = live.peak() + lent;
  result.sent = sent_by(traffic, fsdp::shape_of(mesh));
  return result;
}

std::string name_of(const Case& wanted) {
  return fmt::format("{} {} offload {}", fsdp::name_of(wanted.strategy),
                     wanted.param_dtype ? c10::toString(*wanted.param_dtype) : "Float",
                     wanted.offload == Offload::none     ? "none"
                     : wanted.offload == Offload::params ? "params"
                                                         : "optimizer");
}

void expect_same_plan(const fsdp::MemoryPlan& a, const fsdp::MemoryPlan& b) {
  EXPECT_EQ(a.masters, b.masters);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.optimizer_states, b.optimizer_states);
  EXPECT_EQ(a.compute_shards, b.compute_shards);
  EXPECT_EQ(a.unit_buffers, b.unit_buffers);
  EXPECT_EQ(a.copies, b.copies);
  EXPECT_EQ(a.host, b.host);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Strategy strategy :
       {Strategy::full_shard, Strategy::shard_grad_op, Strategy::hybrid_shard, Strategy::no_shard})
    for (const std::optional<at::ScalarType> dtype : {std::optional<at::ScalarType>(), std::optional(at::kBFloat16)})
      for (const Offload offload : {Offload::none, Offload::optimizer, Offload::params})
        cases.push_back({strategy, dtype, offload});
  return cases;
}

TEST(PlannedPeak, IsThatOfARun) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    for (const Case& wanted : all_cases()) {
      SCOPED_TRACE(name_of(wanted));
      const Measured m = measure(world, wanted);
      expect_same_plan(m.planned, m.built);
      const auto planned = static_cast<double>(m.planned.fixed() + m.planned.host);
      const double ratio = static_cast<double>(m.peak) / planned;
      EXPECT_GT(ratio, 0.97) << m.peak << " bytes measured, planned " << planned;
      EXPECT_LT(ratio, 1.03) << m.peak << " bytes, planned " << planned;
    }
  });
}

TEST(PlannedTraffic, IsWhatAStepSends) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    for (const Case& wanted : all_cases()) {
      SCOPED_TRACE(name_of(wanted));
      const Measured m = measure(world, wanted);
      EXPECT_EQ(m.sent.gathered, m.planned_traffic.gathered);
      EXPECT_EQ(m.sent.reduced, m.planned_traffic.reduced);
      EXPECT_EQ(m.sent.replicated, m.planned_traffic.replicated);
    }
  });
}

}  // namespace
}  // namespace shoal::testing
