// A model that was never whole is sharded to the values that it would have had.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fsdp/deferred_init.h"
#include "fsdp/deferred_models.h"
#include "fsdp/harness.h"
#include "models/init.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::DeferredInit;
using fsdp::FullyShardOptions;

// Ranks that are threads seed and draw from the same generator.
std::mutex g_construction;

Weights eager_weights(const MakeModel& make, std::uint64_t seed) {
  const std::lock_guard turn(g_construction);
  torch::manual_seed(seed);
  const TestModel model = make();
  Weights weights;
  for (const auto& item : model.module->named_parameters()) weights[item.key()] = item.value().detach();
  for (const auto& item : model.module->named_buffers()) weights[item.key()] = item.value().detach();
  return weights;
}

struct Deferred {
  DeferredInit init;
  TestModel model;
};
std::unique_ptr<Deferred> record(const MakeModel& make, std::uint64_t seed) {
  const std::lock_guard turn(g_construction);
  auto deferred = std::make_unique<Deferred>();
  deferred->init.record([&] {
    torch::manual_seed(seed);
    deferred->model = make();
  });
  return deferred;
}

void expect_weights(const Weights& are, const Weights& should) {
  ASSERT_EQ(are.size(), should.size());
  for (const auto& [name, value] : should) {
    ASSERT_TRUE(are.contains(name)) << name;
    EXPECT_TRUE(at::equal(are.at(name), value)) << name;
  }
}

struct Case {
  const char* name;
  MakeModel make;
  const char* wrap = "class:Block";
};

TestModel with_batch_norm_and_table() {
  struct Net : torch::nn::Module {
    Net() {
      conv = register_module("conv", torch::nn::Conv2d(3, 8, 3));
      norm = register_module("norm", torch::nn::BatchNorm2d(8));
      table = register_buffer("table", torch::linspace(0, 1, 600000).cos());
      unregistered = torch::rand({17});
    }
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
    at::Tensor table, unregistered;
  };
  auto net = std::make_shared<Net>();
  return {net, [net](const at::Tensor& x) { return x * net->unregistered.sum() + net->table[1]; }};
}

// Weights that depend on the seed and their names alone, as the trainer's.
TestModel seeded_by_name() {
  TestModel model = make_mlp();
  models::initialize_parameters(*model.module, 11);
  return model;
}

TestModel normal_by_name(const std::function<TestModel()>& make, at::ScalarType type) {
  TestModel model = make();
  model.module->to(type);
  models::initialize_normal(*model.module, 11, [](const std::string&) { return 0.02; });
  return model;
}

TestModel in_bfloat16() {
  TestModel model = make_mlp();
  model.module->to(at::kBFloat16);
  return model;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"mlp", make_mlp},
      {"mlp, one unit", make_mlp, "none"},
      {"mlp, a unit a layer", make_mlp, "class:Linear,LayerNorm"},
      {"tied", make_tied},
      {"frozen", make_frozen},
      {"one block used twice", make_twice},
      {"mixed dtypes", make_mixed_dtypes},
      {"fewer elements than ranks", make_tiny, "none"},
      {"convolution", make_conv, "none"},
      {"batch norm and a table", with_batch_norm_and_table, "class:Conv2d"},
      {"seeded by name", seeded_by_name},
      {"normal by name", [] { return normal_by_name(make_mlp, at::kFloat); }},
      {"the same, tied, bfloat16", [] { return normal_by_name(make_tied, at::kBFloat16); }},
      {"bfloat16", in_bfloat16}};
  return all;
}

TEST(DeferredSharding, EqualsEagerConstruction) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const Case& c : cases()) {
      SCOPED_TRACE(c.name);
      const Weights eager = eager_weights(c.make, 21);
      for (const bool sync : {true, false}) {
        const auto deferred = record(c.make, 21);
        comm::DeviceMesh mesh(world, device_world(world), world.size());
        FullyShardOptions options{
            .sync_module_states = sync, .device = test_device(), .deferred_init = &deferred->init};
        const auto sharded = fsdp::fully_shard(deferred->model.module, mesh, *fsdp::parse_wrap_policy(c.wrap), options);
        expect_weights(whole_weights(*sharded, *deferred->model.module), eager);
        for (const at::Tensor& p : deferred->model.module->parameters()) EXPECT_EQ(p.device(), test_device());
        for (const at::Tensor& b : deferred->model.module->buffers()) EXPECT_EQ(b.device(), test_device());
      }
    }
  });
}

TEST(DeferredSharding, ReplicasAreMadeToo) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    const Weights eager = eager_weights(make_mlp, 3);
    const auto deferred = record(make_mlp, 3);
    comm::DeviceMesh mesh(world, device_world(world), 2);
    const auto sharded = fsdp::fully_shard(deferred->model.module, mesh, *fsdp::parse_wrap_policy("class:Block"),
                                           {.device = test_device(), .deferred_init = &deferred->init});
    expect_weights(whole_weights(*sharded, *deferred->model.module), eager);
  });
}

// Where the ranks recorded different draws, the first one's count.
TEST(DeferredSharding, SyncGivesEverybodyTheValuesOfTheFirstRank) {
  on_ranks([](comm::ProcessGroup& world) {
    const Weights eager = eager_weights(make_mlp, 100);
    const auto deferred = record(make_mlp, 100 + static_cast<std::uint64_t>(world.rank()));
    comm::DeviceMesh mesh(world, device_world(world), world.size());
    const auto sharded = fsdp::fully_shard(deferred->model.module, mesh, *fsdp::parse_wrap_policy("class:Block"),
                                           {.device = test_device(), .deferred_init = &deferred->init});
    expect_weights(whole_weights(*sharded, *deferred->model.module), eager);
  });
}

TEST(DeferredSharding, SkippedValuesAreZerosAndBuffersAreMade) {
  on_ranks([](comm::ProcessGroup& world) {
    Weights expected = eager_weights(with_batch_norm_and_table, 1);
    const auto deferred = record(with_batch_norm_and_table, 1);
    for (const auto& item : deferred->model.module->named_parameters()) expected[item.key()].zero_();
    comm::DeviceMesh mesh(world, device_world(world), world.size());
    const auto sharded =
        fsdp::fully_shard(deferred->model.module, mesh, *fsdp::parse_wrap_policy("none"),
                          {.device = test_device(), .deferred_init = &deferred->init, .skip_init = true});
    expect_weights(whole_weights(*sharded, *deferred->model.module), expected);
  });
}

// What the module keeps without having registered it is made as well, or the forward pass would throw.
TEST(DeferredSharding, RunsForwardAndBackward) {
  on_ranks([](comm::ProcessGroup& world) {
    const auto deferred = record(make_mlp, 8);
    comm::DeviceMesh mesh(world, device_world(world), world.size());
    const auto sharded = fsdp::fully_shard(deferred->model.module, mesh, *fsdp::parse_wrap_policy("class:Block"),
                                           {.device = test_device(), .deferred_init = &deferred->init});
    const at::Tensor x = torch::ones({4, 6}, at::TensorOptions(test_device()).dtype(at::kDouble));
    double loss = 0;
    sharded->run([&] {
      const at::Tensor sum = deferred->model.forward(x).square().sum();
      sum.backward();
      loss = sum.item<double>();
    });
    const auto whole = [&] {
      const std::lock_guard turn(g_construction);
      torch::manual_seed(8);
      return make_mlp();
    }();
    whole.module->to(test_device());
    EXPECT_NEAR(loss, whole.forward(x).square().sum().item<double>(), 1e-9 * loss);
    EXPECT_GT(sharded->grad_norm(1), 0);
  });
}

TEST(DeferredSharding, TensorsThatAreNotRegisteredAreMadeToo) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    const auto deferred = record(with_batch_norm_and_table, 1);
    comm::DeviceMesh mesh(world, device_world(world), world.size());
    const auto sharded = fsdp::fully_shard(deferred->model.module, mesh, *fsdp::parse_wrap_policy("none"),
                                           {.deferred_init = &deferred->init});
    EXPECT_GT(deferred->model.forward(torch::ones({1})).item<float>(), 1.0F);
  });
}

}  // namespace
}  // namespace shoal::testing
