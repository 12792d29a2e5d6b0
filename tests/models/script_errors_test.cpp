// TorchScript files that are not as they should be: each is one line that names the flag and the file.
#include <torch/torch.h>

#include <fstream>

#include "models/script_file.h"

namespace shoal::models {
namespace {

using testing::make_script;
using testing::module_of_class;
using testing::ScriptFile;
using testing::token_batch;
namespace jit = torch::jit;

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
