// A TorchScript file as a model: made here by LibTorch itself, as Python would make it.
#include "models/script_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "comm/device_mesh.h"
#include "core/error.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "models/script_description.h"
#include "models/script_device.h"
#include "support/on_ranks.h"

namespace shoal::models {
namespace {

namespace jit = torch::jit;

const char* const kTokens = R"({"format": 1, "name": "tiny", "module": "model", "data": "tokens", "vocab_size": 11,
  "max_positions": 8, "dtypes": ["fp32"], "non_persistent_buffers": ["table"], "defaults": {"wrap": "class:Block"}})";

jit::Module module_of_class(const std::string& name) {
  static int mangled = 0;  // as tracing does: the same class once more is another type
  jit::Module script(c10::QualifiedName(fmt::format("__torch__.library.___torch_mangle_{}.{}", mangled++, name)));
  script.register_attribute("training", c10::BoolType::get(), true);
  return script;
}

at::Tensor random(const std::string& name, at::IntArrayRef shape) {
  return at::randn(shape, at::detail::createCPUGenerator(std::hash<std::string>{}(name)));
}

jit::Module make_block(const std::string& name) {
  jit::Module block = module_of_class("Block");
  block.register_parameter("weight", random(name, {6, 6}), /*is_buffer=*/false);
  block.register_parameter("bias", random(name + "b", {6}), /*is_buffer=*/false);
  block.register_attribute("p", c10::FloatType::get(), 0.2);
  block.define(R"(
    def forward(self, x):
        return x + torch.dropout(torch.tanh(torch.linear(x, self.weight, self.bias)), self.p, self.training)
  )");
  return block;
}

// A language model whose head is tied to its embedding, under a root that adds the loss.
jit::Module make_script() {
  jit::Module model = module_of_class("TinyLM"), embed = module_of_class("Embedding"),
              root = module_of_class("Program");
  const at::Tensor weight = random("embedding", {11, 6}).set_requires_grad(true);
  embed.register_parameter("weight", weight, false);
  model.register_module("embed", embed);
  model.register_parameter("head", weight, false);
  model.register_buffer("table", random("table", {8, 6}));
  model.register_buffer("scale", at::ones({}));
  for (const char* const name : {"first", "second"}) model.register_module(name, make_block(name));
  model.define(R"(
    def forward(self, x):
        device = torch.device("cpu")
        places = torch.arange(x.size(1), device=device)
        y = torch.embedding(self.embed.weight, x) + torch.index_select(self.table, 0, places)
        y = self.second.forward(self.first.forward(y)) * self.scale
        return torch.linear(y, self.head)
  )");
  root.register_module("model", model);
  root.define(R"(
    def forward(self, inputs, targets):
        logits = self.model.forward(inputs).flatten(0, 1)
        return torch.nll_loss(torch.log_softmax(logits, 1), targets.flatten(), None, 2, -100)
    def evaluate(self, inputs, targets):
        logits = self.model.forward(inputs).flatten(0, 1)
        wanted = targets.flatten()
        loss = torch.nll_loss(torch.log_softmax(logits, 1), wanted, None, 2, -100)
        return loss, torch.sum(logits.argmax(1) == wanted), torch.sum(wanted != -100)
  )");
  for (const at::Tensor& parameter : root.parameters()) parameter.set_requires_grad(true);
  return root;
}

data::Batch token_batch(std::int64_t seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return {at::randint(11, {4, 8}, generator), at::randint(11, {4, 8}, generator)};
}

class ScriptFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  ModelEntry save(const jit::Module& script, const std::string& about = kTokens) {
    jit::ExtraFilesMap extra;
    if (!about.empty()) extra["shoal.json"] = about;
    script.save(path_.string(), extra);
    return load_script_model(path_);
  }

  static std::unique_ptr<Model> model_of(const ModelEntry& entry) { return entry.make(complete(entry, {})); }

  // What `fails` says, without the file's name.
  std::string error_of(const std::function<void()>& fails) const {
    try {
      fails();
    } catch (const OptionError& error) {
      const std::string text = error.what(), start = fmt::format("--model-script {}: ", path_.string());
      EXPECT_TRUE(text.starts_with(start)) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      return text.substr(std::min(start.size(), text.size()));
    }
    ADD_FAILURE() << "no OptionError";
    return "";
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / fmt::format("shoal_script_{}.pt", static_cast<int>(getpid()));
};

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

TEST_F(ScriptFile, WhatIsNoScriptIsSaidSo) {
  EXPECT_EQ(error_of([&] { load_script_model(path_); }), "there is no such file");
  std::ofstream(path_) << "no archive";
  EXPECT_EQ(error_of([&] { load_script_model(path_); }),
            "not a TorchScript file; make one with scripts/export_model.py");
}

TEST_F(ScriptFile, DescriptionsThatDoNotFit) {
  const jit::Module script = make_script();
  const auto error = [&](const std::string& about) { return error_of([&] { model_of(save(script, about)); }); };
  EXPECT_NE(error("").find("does not say what data it trains on; save it with torch.jit.save(module, path"),
            std::string::npos);
  EXPECT_NE(error(R"({"data": "images"})").find("'images' is none that Shoal knows"), std::string::npos);
  EXPECT_NE(error(R"({"format": 2, "data": "tokens"})").find("format 2 is newer"), std::string::npos);
  EXPECT_NE(error("[").find("not a JSON object"), std::string::npos);
  EXPECT_NE(error(R"({"data": "tokens", "vocab_size": "many"})").find("not as docs/from_python.md"), std::string::npos);
  EXPECT_EQ(error(R"({"data": "tokens", "module": "net"})"), "there is no module 'net', which its shoal.json names");
}

TEST_F(ScriptFile, AParameterOutsideTheModelIsRefused) {
  jit::Module script = make_script();
  script.register_parameter("temperature", at::ones({1}), false);
  EXPECT_EQ(error_of([&] { model_of(save(script)); }),
            "parameter 'temperature' is no part of module 'model', which its shoal.json names as the model");
}

TEST_F(ScriptFile, ModulesThatDoNotFit) {
  const char* const tokens = R"({"data": "tokens"})";
  const auto error = [&](const char* code, const char* about, bool parameter) {
    jit::Module script = module_of_class("Net");
    if (parameter) script.register_parameter("w", at::ones({2}).set_requires_grad(true), false);
    if (*code != 0) script.define(code);
    return error_of([&] {
      const auto model = model_of(save(script, about));
      model->loss(token_batch(1));
      model->evaluate(token_batch(1));
    });
  };
  EXPECT_EQ(error("", tokens, true), "has no method forward(inputs, targets)");
  EXPECT_NE(error("def forward(self, x):\n  return self.w.sum()\n", tokens, true).find("takes 1 arguments"),
            std::string::npos);
  EXPECT_NE(error("def forward(self, x, y):\n  return x.sum()\n", tokens, false).find("no parameters to train"),
            std::string::npos);
  EXPECT_NE(error("def forward(self, x, y):\n  return self.w\n", tokens, true).find("a tensor of no dimension"),
            std::string::npos);
  EXPECT_NE(
      error("def forward(self, x, y):\n  return self.w.sum()\ndef evaluate(self, x, y):\n  return 1\n", tokens, true)
          .find("three numbers"),
      std::string::npos);
  EXPECT_NE(error("def forward(self, x, y):\n  return self.w.sum()\n", R"({"data": "mnist"})", true)
                .find("without which there is no accuracy"),
            std::string::npos);
}

TEST_F(ScriptFile, AnElementTypeThatTheFileIsNotMadeForIsRefused) {
  const auto model = model_of(save(make_script()));
  for (const at::Tensor& parameter : model->module()->parameters()) parameter.set_data(parameter.to(at::kBFloat16));
  try {
    model->loss(token_batch(1));
    FAIL();
  } catch (const OptionError& error) {
    EXPECT_EQ(std::string(error.what()),
              fmt::format("--param-dtype bf16: {} was exported for fp32; export it again with --dtypes fp32,bf16",
                          path_.string()));
  }
}

TEST_F(ScriptFile, TheShapeCannotBeChanged) {
  const ModelEntry entry = save(make_script());
  EXPECT_NE(error_of([&] { entry.make(complete(entry, {.vocab_size = 12})); }).find("leave out --vocab-size"),
            std::string::npos);
}

}  // namespace
}  // namespace shoal::models
