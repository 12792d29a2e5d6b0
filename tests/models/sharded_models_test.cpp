// The built-in models in the engine: units by the classes that are their default, sharded as whole, deferred as drawn.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <string>

#include "comm/device_mesh.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "fsdp/wrap_policy.h"
#include "models/registry.h"
#include "support/on_ranks.h"

namespace shoal::models {
namespace {

constexpr std::int64_t kVocabulary = 61, kLength = 12, kSamples = 8;
constexpr int kSteps = 2;
constexpr double kRate = 0.5;

std::unique_ptr<Model> make(const std::string& name, const ModelOptions& given) {
  const ModelEntry& entry = find_model(name);
  return entry.make(complete(entry, given));
}

ModelOptions small() {
  return {.seed = 3,
          .layers = 3,
          .heads = 4,
          .hidden_size = 32,
          .vocab_size = kVocabulary,
          .max_positions = kLength,
          .dropout = 0};
}

// Samples begin … end - 1. What is to be predicted differs from sample to sample, as in masked language modelling.
data::Batch batch(int step, std::int64_t begin, std::int64_t end) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step));
  const at::Tensor inputs = at::randint(kVocabulary, {kSamples, kLength}, generator, at::kLong);
  at::Tensor targets = at::randint(kVocabulary, {kSamples, kLength}, generator, at::kLong);
  for (std::int64_t i = 0; i < kSamples; ++i) targets[i].slice(0, i).fill_(-100);
  return {inputs.slice(0, begin, end), targets.slice(0, begin, end)};
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> weights;
};

std::map<std::string, at::Tensor> copies(torch::nn::Module& module) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& item : module.named_parameters()) weights[item.key()] = item.value().detach().clone();
  return weights;
}

// SGD by plain LibTorch, in fp64.
Trained train_whole(Model& model) {
  model.module()->to(at::kDouble);
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    model.module()->zero_grad();
    const LossSum loss = model.loss(batch(step, 0, kSamples));
    loss.sum.backward();
    const at::NoGradGuard no_grad;
    std::set<const void*> seen;
    for (at::Tensor& p : model.module()->parameters())
      if (seen.insert(p.unsafeGetTensorImpl()).second) p.sub_(p.grad(), kRate / static_cast<double>(loss.count));
    result.losses.push_back(loss.sum.item<double>());
  }
  result.weights = copies(*model.module());
  return result;
}

Trained train_sharded(comm::ProcessGroup& world, Model& model, const std::string& wrap, const std::string& recompute) {
  model.module()->to(at::kDouble);
  comm::DeviceMesh mesh(world, world, world.size());
  fsdp::FullyShardOptions options;
  options.activation_checkpoint = recompute;
  const auto sharded = fsdp::fully_shard(model.module(), mesh, *fsdp::parse_wrap_policy(wrap), options);
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "sgd"}));
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    LossSum loss;
    sharded->run([&] {
      loss =
          model.loss(batch(step, kSamples * world.rank() / world.size(), kSamples * (world.rank() + 1) / world.size()));
      loss.sum.backward();
    });
    const std::int64_t count = comm::all_reduce(world, loss.count, comm::ReduceOp::sum);
    result.losses.push_back(comm::all_reduce(world, loss.sum.item<double>(), comm::ReduceOp::sum));
    optimizer.step(kRate, 1.0 / static_cast<double>(count));
  }
  sharded->summon_full_params([&] { result.weights = copies(*model.module()); });
  return result;
}

void expect_same(const Trained& got, const Trained& expected, const std::string& where) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-10 * expected.losses[i]) << where << ", step " << i;
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (const auto& [name, weight] : expected.weights)
    EXPECT_TRUE(at::allclose(got.weights.at(name), weight, 1e-9, 1e-10)) << where << ", " << name;
}

class ShardedModels : public ::testing::TestWithParam<std::string> {};

TEST_P(ShardedModels, TrainAsWholeOnes) {
  for (const bool untied : {false, true}) {
    ModelOptions options = small();
    options.untied_head = untied;
    const Trained expected = train_whole(*make(GetParam(), options));
    const auto compare = [&](comm::ProcessGroup& world, const std::string& recompute) {
      const auto model = make(GetParam(), options);
      const Trained got = train_sharded(world, *model, find_model(GetParam()).defaults.wrap, recompute);
      expect_same(got, expected, fmt::format("{} ranks, untied {}, recompute {}", world.size(), untied, recompute));
    };
    shoal::testing::on_ranks([&](comm::ProcessGroup& world) { compare(world, "none"); });
    shoal::testing::on_ranks(2, [&](comm::ProcessGroup& world) { compare(world, "full"); });
  }
}

TEST_P(ShardedModels, EachLayerIsAUnit) {
  const auto model = make(GetParam(), small());
  const auto units = fsdp::parse_wrap_policy(find_model(GetParam()).defaults.wrap)->select(*model->module());
  EXPECT_EQ(units.size(), 3);
}

TEST_P(ShardedModels, DeferredParametersAreTheDrawnOnes) {
  fsdp::DeferredInit deferred;
  std::unique_ptr<Model> model;
  deferred.record([&] { model = make(GetParam(), small()); });
  const auto drawn = make(GetParam(), small());
  const auto expected = drawn->module()->named_parameters();
  for (const auto& item : model->module()->named_parameters()) {
    const at::Tensor values = deferred.is_deferred(item.value()) ? deferred.values(item.value()) : item.value();
    EXPECT_TRUE(at::equal(values, expected[item.key()])) << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShardedModels, ::testing::Values("gpt2-tiny", "llama-tiny", "bert-tiny"),
                         [](const auto& model) { return model.param.substr(0, model.param.find('-')); });

// Tied ones once.
std::int64_t parameter_count(const std::string& name) {
  fsdp::DeferredInit deferred;
  std::unique_ptr<Model> model;
  deferred.record([&] { model = make(name, {}); });
  std::int64_t elements = 0;
  std::set<const void*> seen;
  for (const at::Tensor& p : model->module()->parameters())
    if (seen.insert(p.unsafeGetTensorImpl()).second) elements += p.numel();
  return elements;
}

// As published, and as transformers counts them; built without memory.
TEST(LargeModels, HaveAsManyParametersAsTheOriginals) {
  const std::map<std::string, std::int64_t> expected = {{"gpt2-124m", 124'439'808},  {"gpt2-355m", 354'823'168},
                                                        {"gpt2-774m", 774'030'080},  {"gpt2-1.5b", 1'557'611'200},
                                                        {"llama-1b", 1'235'814'400}, {"llama-8b", 8'030'261'248},
                                                        {"bert-base", 109'514'298}};
  for (const auto& [name, count] : expected) EXPECT_EQ(parameter_count(name), count) << name;
}

}  // namespace
}  // namespace shoal::models
