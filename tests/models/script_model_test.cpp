// A TorchScript file as a model: its names, its loss, its gradients under sharding.
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/torch.h>

#include <map>

#include "comm/device_mesh.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "models/script_device.h"
#include "models/script_file.h"
#include "support/on_ranks.h"

namespace shoal::models {
namespace {

using testing::make_script;
using testing::module_of_class;
using testing::ScriptFile;
using testing::token_batch;
namespace jit = torch::jit;

TEST_F(ScriptFile, TheEntryIsWhatTheFileSays) {
  const ModelEntry entry = save(make_script());
  EXPECT_EQ(entry.name, "tiny");
  EXPECT_EQ(entry.shape.vocab_size, 11);
  EXPECT_EQ(entry.shape.max_positions, 8);
  EXPECT_EQ(entry.defaults.wrap, "class:Block");
  EXPECT_EQ(entry.defaults.optimizer, "adamw") << "what it does not say has a default";
  EXPECT_EQ(entry.metric, Metric::perplexity);
}

TEST_F(ScriptFile, TheModuleHasTheNamesOfPython) {
  const auto model = model_of(save(make_script()));
  std::map<std::string, std::string> classes;
  for (const auto& item : model->module()->named_modules()) classes[item.key()] = item.value()->name();
  EXPECT_EQ(classes, (std::map<std::string, std::string>{
                         {"", "TinyLM"}, {"embed", "Embedding"}, {"first", "Block"}, {"second", "Block"}}));
  const auto parameters = model->module()->named_parameters();
  EXPECT_EQ(parameters.keys(), (std::vector<std::string>{"head", "embed.weight", "first.weight", "first.bias",
                                                         "second.weight", "second.bias"}));
  EXPECT_EQ(parameters["head"].unsafeGetTensorImpl(), parameters["embed.weight"].unsafeGetTensorImpl()) << "tied";
  EXPECT_EQ(model->module()->named_buffers().keys(), std::vector<std::string>{"scale"})
      << "'table' is no part of the model's state";
}

TEST_F(ScriptFile, LossAndEvaluation) {
  jit::Module script = make_script();
  const auto model = model_of(save(script));
  data::Batch batch = token_batch(1);
  batch.targets[0][0] = -100;
  script.eval();
  model->set_training(false);
  const LossSum loss = model->loss(batch);
  EXPECT_EQ(loss.count, 31) << "an ignored target is not counted";
  EXPECT_EQ(loss.sum.item<double>(), script.forward({batch.inputs, batch.targets}).toTensor().item<double>());
  const EvalSum eval = model->evaluate(batch);
  EXPECT_EQ(eval.loss_sum, loss.sum.item<double>());
  EXPECT_EQ(eval.count, 31);
  const auto expected = script.get_method("evaluate")({batch.inputs, batch.targets}).toTuple()->elements()[1];
  EXPECT_EQ(eval.correct, expected.toTensor().item<std::int64_t>());
}

TEST_F(ScriptFile, AScriptedModuleFollowsTheMode) {
  const auto model = model_of(save(make_script()));
  const auto loss = [&] { return model->loss(token_batch(1)).sum.item<double>(); };
  model->set_training(true);
  EXPECT_TRUE(model->module()->is_training());
  EXPECT_NE(loss(), loss());
  model->set_training(false);
  EXPECT_FALSE(model->module()->is_training());
  EXPECT_EQ(loss(), loss());
}

TEST_F(ScriptFile, ForwardMayGiveTheCountItself) {
  jit::Module script = make_script();
  jit::Module counting = module_of_class("Program");
  counting.register_module("model", script.attr("model").toModule());
  counting.define(R"(
    def forward(self, inputs, targets):
        return self.model.forward(inputs).sum(), torch.numel(targets) // 2
  )");
  const auto model = model_of(save(counting));
  EXPECT_EQ(model->loss(token_batch(1)).count, 16);
  EXPECT_EQ(model->evaluate(token_batch(1)).count, 16) << "without a method evaluate, forward is what there is";
}

// All parameters after a step of plain gradient descent with what two passes over `batch` gave, halved.
using Weights = std::map<std::string, at::Tensor>;
Weights step_of_script(jit::Module& script, const data::Batch& batch) {
  const jit::GraphOptimizerEnabledGuard as_written(false);
  for (int pass = 0; pass < 2; ++pass) script.forward({batch.inputs, batch.targets}).toTensor().backward();
  const at::NoGradGuard no_grad;
  Weights weights;
  for (const auto& item : script.attr("model").toModule().named_parameters())
    weights[item.name] = item.value - item.value.grad() * 0.5;
  return weights;
}

// The same by the engine, where each of `world` computes its part of the passes.
Weights step_of_model(Model& model, const std::string& wrap, const data::Batch& batch, comm::ProcessGroup& world) {
  comm::DeviceMesh mesh(world, world, world.size());
  const auto sharded = fsdp::fully_shard(model.module(), mesh, *fsdp::parse_wrap_policy(wrap), {});
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "sgd"}));
  for (int pass = world.rank(); pass < 2; pass += world.size()) sharded->run([&] { model.loss(batch).sum.backward(); });
  optimizer.step(1, 0.5);
  Weights weights;
  sharded->summon_full_params([&] {
    for (const auto& item : model.module()->named_parameters()) weights[item.key()] = item.value().detach().clone();
  });
  return weights;
}

// Both passes are over the same batch, so that sums and halves of gradients are exact.
TEST_F(ScriptFile, ShardedGradientsAreThoseOfTheScriptToTheBit) {
  const jit::Module saved = make_script();
  const ModelEntry entry = save(saved);
  const data::Batch batch = token_batch(2);
  jit::Module plain = jit::load(path_.string());
  plain.eval();  // ranks that are threads share the generator of dropout
  const Weights expected = step_of_script(plain, batch);
  for (const int ranks : {1, 2}) {
    testing::on_ranks(ranks, [&](comm::ProcessGroup& world) {
      const auto model = model_of(entry);
      model->set_training(false);
      const Weights weights = step_of_model(*model, "class:Block,Embedding", batch, world);
      EXPECT_EQ(weights.size(), 6U);
      for (const auto& [name, weight] : weights) EXPECT_TRUE(at::equal(weight, expected.at(name))) << name;
    });
  }
}

TEST(ScriptWrapping, PythonsContainersAreNoUnits) {
  const auto root = std::make_shared<torch::nn::Module>("Net"),
             list = std::make_shared<torch::nn::Module>("ModuleList");
  root->register_module("h", list);
  for (const char* const name : {"0", "1"}) list->register_module(name, torch::nn::Linear(6, 6));
  EXPECT_TRUE(fsdp::parse_wrap_policy("size:50")->select(*root).empty()) << "84 parameters, but a list";
  EXPECT_EQ(fsdp::parse_wrap_policy("size:40")->select(*root).size(), 2U);
}

// TorchScript's interpreter makes a std::runtime_error of what is thrown below it.
TEST_F(ScriptFile, ErrorsOfTheEngineComeThroughTheInterpreter) {
  const ModelEntry entry = save(make_script());
  testing::on_ranks(2, [&](comm::ProcessGroup& world) {
    const auto model = model_of(entry);
    comm::DeviceMesh mesh(world, world, 2);
    const auto sharded =
        fsdp::fully_shard(model->module(), mesh, *fsdp::parse_wrap_policy("class:Block,Embedding"), {});
    const auto last = model->module()->named_parameters()["second.weight"];
    const auto go_apart = [&] {
      sharded->run([&] { world.rank() == 0 ? model->loss(token_batch(1)).sum : last.sum(); });
    };
    EXPECT_THROW(go_apart(), CommunicationError);
  });
}

TEST_F(ScriptFile, TheDeviceOfATraceIsReplaced) {
  jit::Module script = module_of_class("Net");
  script.define(R"(
    def forward(self, x):
        places = torch.zeros([2], device=torch.device("cpu"))
        if x.size(0) > 1:
            places = torch.ones([3], device=torch.device("cpu"))
        return places
  )");
  script.save(path_.string());
  jit::Module loaded = jit::load(path_.string());
  set_script_device(loaded, at::kMeta);
  const jit::GraphOptimizerEnabledGuard as_written(false);
  for (const int samples : {1, 2}) EXPECT_TRUE(loaded.forward({at::ones({samples})}).toTensor().is_meta());
}

}  // namespace
}  // namespace shoal::models
