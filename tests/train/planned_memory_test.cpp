// What a plan says beside what ranks on the CPU have, activations included: within 3 % of the peak that LibTorch's
// allocator and the groups' memory come to, for each strategy, precision, offload and kind of recomputation.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fsdp/counting_group.h"
#include "fsdp/memory_plan.h"
#include "fsdp/runtime.h"
#include "fsdp/sharded_optimizer.h"
#include "fsdp/step_traffic.h"
#include "optim/optimizer.h"
#include "support/live_bytes.h"
#include "support/on_ranks.h"
#include "train/activations.h"

namespace shoal::testing {
namespace {

using fsdp::Strategy;
using train::TrainOptions;

struct Case {
  std::string model, strategy, param_dtype, offload, checkpoint;
  bool activation_offload = false;
  std::int64_t batch = 4, length = 128;
  bool large_units = false;  // embedding and head are units of their own
  int micro_steps = 1;
  std::string accumulate = "defer";
};

std::string text_of(const Case& c) {
  return fmt::format("{} {} {} offload {}, {}{}, {} micro-steps ({})", c.model, c.strategy, c.param_dtype, c.offload,
                     c.checkpoint, c.activation_offload ? ", activation offload" : "", c.micro_steps, c.accumulate);
}

TrainOptions options_of(const Case& c) {
  const models::ModelEntry& entry = models::find_model(c.model);
  TrainOptions options = train::defaults_for(entry);
  options.model.name = c.model;
  if (entry.shape.max_positions > 0) {
    options.model.shape = {.layers = 6, .heads = 4, .hidden_size = 128, .vocab_size = 512};
    options.data.sequence_length = c.length;
  }
  options.model.shape = models::complete(entry, options.model.shape);
  options.sharding.strategy = c.strategy;
  options.sharding.param_dtype = c.param_dtype;
  options.sharding.offload = c.offload;
  options.sharding.activation_checkpoint = c.checkpoint;
  options.sharding.activation_offload = c.activation_offload;
  options.sharding.accumulate_mode = c.accumulate;
  if (!c.large_units) return options;
  options.model.shape.untied_head = true;
  options.sharding.wrap = options.sharding.wrap.substr(0, options.sharding.wrap.find('+')) + "+rest:20000";
  return options;
}

fsdp::FullyShardOptions sharding_of(const TrainOptions& options) {
  fsdp::FullyShardOptions how = train::fully_shard_options(options.sharding, false);
  how.offload_on_cpu = true;
  how.check_replicas_at_start = false;  // sends messages of its own
  return how;
}

at::Tensor filled(const at::Tensor& shape, std::int64_t below) {
  return shape.is_floating_point() ? at::zeros(shape.sizes(), shape.options().device(at::kCPU))
                                   : at::randint(below, shape.sizes(), shape.options().device(at::kCPU));
}

// Where a masked model has something to predict, as many places as are planned for.
data::Batch batch_of(const models::ModelEntry& entry, const TrainOptions& options, std::int64_t samples) {
  const data::Batch shapes = entry.batch_shapes(samples, {.sequence_length = options.data.sequence_length});
  const std::int64_t classes = options.model.shape.vocab_size > 0 ? options.model.shape.vocab_size : 10;
  data::Batch batch{filled(shapes.inputs, classes), filled(shapes.targets, classes), shapes.predicted};
  if (shapes.predicted >= 0)
    batch.targets.flatten().narrow(0, shapes.predicted, batch.targets.numel() - shapes.predicted).fill_(-100);
  if (options.sharding.param_dtype == "bf16" && batch.inputs.is_floating_point())
    batch.inputs = batch.inputs.to(at::kBFloat16);
  return batch;
}

// Bytes of one rank: the peak of its steps, and what is planned beside activations; what a step sends.
struct Measured {
  std::int64_t peak = 0, planned = 0;
  fsdp::StepTraffic sent, planned_traffic;
  std::int64_t gathers_with_all = 0;
};

Measured measure(comm::ProcessGroup& world, const Case& wanted, const std::vector<std::string>& idle) {
  const models::ModelEntry& entry = models::find_model(wanted.model);
  const TrainOptions options = options_of(wanted);
  const auto policy = fsdp::parse_wrap_policy(options.sharding.wrap);
  TrafficByCall traffic;
  CountingGroup counting_group(world, traffic);
  comm::DeviceMesh mesh(
      world, counting_group,
      fsdp::shard_group_size(fsdp::parse_strategy(wanted.strategy), world.size(), world.size(), world.size() / 2));
  const auto model = entry.make(options.model.shape);
  model->set_training(true);
  const fsdp::FullyShardOptions how = sharding_of(options);
  const fsdp::MeshShape shape = fsdp::shape_of(mesh);
  const auto units = fsdp::unit_sizes(*model->module(), *policy, shape, how, /*on_cpu=*/true);

  LiveBytes live;
  const auto sharded = fsdp::fully_shard(model->module(), mesh, *policy, how);
  const std::int64_t lent = traffic["allocate"].bytes;
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "adamw"}));
  live.restart_peak();  // of the steps alone
  const fsdp::Accumulation accumulation = train::accumulation_of(options.sharding, wanted.micro_steps);
  sharded->set_requires_all_reduce(wanted.accumulate == "reduce");
  for (int step = 0; step < 2; ++step) {
    traffic.clear();
    for (int micro = 1; micro <= wanted.micro_steps; ++micro) {
      sharded->set_requires_gradient_sync(accumulation != fsdp::Accumulation::keep || micro == wanted.micro_steps);
      const data::Batch batch = batch_of(entry, options, wanted.batch);
      sharded->run([&] { model->loss(batch).sum.backward(); });
    }
    optimizer.step(0.1, 1);
  }
  sharded->state_dict();  // waits for steps on the host
  const fsdp::MemoryPlan memory = fsdp::plan_of(*sharded, optimizer.states(), 0, accumulation);
  const auto planned_traffic = [&](const std::vector<std::string>& not_again) {
    return fsdp::step_traffic(units, shape, how, wanted.micro_steps, accumulation, not_again);
  };
  return {live.peak() + lent, memory.fixed() + memory.host, sent_by(traffic, shape), planned_traffic(idle),
          planned_traffic({}).gathered};
}

void expect_within(int ranks, const Case& wanted, double tolerance = 0.03) {
  SCOPED_TRACE(text_of(wanted));
  at::set_num_threads(1);
  const auto activations = train::plan_activations(models::find_model(wanted.model), options_of(wanted), wanted.batch,
                                                   /*on_gpu=*/false, nullptr);
  EXPECT_EQ(activations.unknown, "");
  on_ranks(ranks, [&](comm::ProcessGroup& world) {
    at::set_num_threads(1);
    const Measured m = measure(world, wanted, activations.idle_in_backward);
    EXPECT_EQ(m.sent.gathered, m.planned_traffic.gathered);
    EXPECT_EQ(m.sent.reduced, m.planned_traffic.reduced);
    EXPECT_EQ(m.sent.replicated, m.planned_traffic.replicated);
    EXPECT_EQ(m.planned_traffic.gathered < m.gathers_with_all, wanted.large_units);
    const std::int64_t planned = m.planned + activations.peak + activations.host;
    EXPECT_NEAR(static_cast<double>(m.peak) / static_cast<double>(planned), 1, tolerance)
        << text_of(wanted) << ": " << m.peak << " bytes measured, planned " << planned << ", of these "
        << activations.peak << " activations";
  });
}

const std::vector<std::string> kStrategies{"full_shard", "shard_grad_op", "hybrid_shard", "no_shard"};

TEST(PlannedMemory, OfEachStrategyPrecisionAndOffload) {
  for (const std::string& strategy : kStrategies)
    for (const char* dtype : {"fp32", "bf16"})
      for (const char* offload : {"none", "optimizer", "params"})
        expect_within(4, {"gpt2-tiny", strategy, dtype, offload, "none"});
}

TEST(PlannedMemory, OfEachKindOfRecomputation) {
  for (const std::string& strategy : kStrategies)
    for (const char* dtype : {"fp32", "bf16"})
      for (const char* checkpoint : {"full", "every:2", "selective"})
        expect_within(4, {"gpt2-tiny", strategy, dtype, "none", checkpoint});
}

TEST(PlannedMemory, OfOffloadWithRecomputation) {
  for (const char* dtype : {"fp32", "bf16"})
    for (const char* offload : {"optimizer", "params"})
      for (const char* checkpoint : {"full", "selective"})
        expect_within(4, {"gpt2-tiny", "full_shard", dtype, offload, checkpoint});
}

TEST(PlannedMemory, OfActivationOffload) {
  for (const char* checkpoint : {"none", "full"})
    expect_within(2, {"gpt2-tiny", "full_shard", "fp32", "none", checkpoint, /*activation_offload=*/true, 16, 256});
}

TEST(PlannedMemory, OfEachModel) {
  for (const char* dtype : {"fp32", "bf16"})
    for (const char* checkpoint : {"none", "full"})
      for (const char* model : {"llama-tiny", "bert-tiny"})
        expect_within(2, {model, "full_shard", dtype, "none", checkpoint});
}

TEST(PlannedMemory, OfSeveralMicroSteps) {
  for (const std::string& strategy : kStrategies)
    for (const char* dtype : {"fp32", "bf16"})
      for (const char* offload : {"none", "optimizer"})
        for (const char* mode : {"defer", "reduce", "keep"}) {
          Case wanted{"gpt2-tiny", strategy, dtype, offload, "none"};
          wanted.batch = 1;
          wanted.length = 64;
          wanted.micro_steps = 3;
          wanted.accumulate = mode;
          expect_within(4, wanted, 0.01);
        }
}

TEST(PlannedMemory, OfLargeUnits) {
  for (const char* model : {"gpt2-tiny", "llama-tiny"})
    for (const char* checkpoint : {"none", "full"}) {
      Case wanted{model, "full_shard", "bf16", "none", checkpoint};
      wanted.large_units = true;
      expect_within(4, wanted);
    }
}

class Peeking final : public models::Model {
 public:
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  models::LossSum loss(const data::Batch& batch) override {
    const at::Tensor sum = net_(batch.inputs).sum();
    return {sum.item<double>() > 0 ? sum : -sum, 1};
  }
  models::EvalSum evaluate(const data::Batch& /*batch*/) override { return {}; }

 private:
  torch::nn::Linear net_{28, 1};
};

TEST(PlannedMemory, WhatIsNotKnownIsSaid) {
  models::ModelEntry entry = models::find_model("mnist-net");
  const TrainOptions options = train::defaults_for(entry);
  entry.make = [](const models::ModelOptions&) { return std::make_unique<Peeking>(); };
  const auto plan = train::plan_activations(entry, options, 4, /*on_gpu=*/false, nullptr);
  EXPECT_NE(plan.unknown.find("aten::_local_scalar_dense"), std::string::npos) << plan.unknown;
  EXPECT_EQ(plan.unknown.find('\n'), std::string::npos);
  EXPECT_EQ(plan.peak, 0);
  entry.batch_shapes = {};
  EXPECT_EQ(train::plan_activations(entry, options, 4, false, nullptr).unknown,
            "what a batch looks like is not known without --data");
}

}  // namespace
}  // namespace shoal::testing
