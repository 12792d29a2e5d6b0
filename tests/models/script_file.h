// A TorchScript file made by LibTorch itself, as Python would make it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/error.h"
#include "models/script_model.h"

namespace shoal::testing {

namespace jit = torch::jit;

// What the description of make_script() says.
extern const char* const kTokens;

// An empty module whose Python class has this name.
jit::Module module_of_class(const std::string& name);

// A language model whose head is tied to its embedding, under a root that adds the loss.
jit::Module make_script();

data::Batch token_batch(std::uint64_t seed);

class ScriptFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  models::ModelEntry save(const jit::Module& script, const std::string& about = kTokens) {
    jit::ExtraFilesMap extra;
    if (!about.empty()) extra["shoal.json"] = about;
    script.save(path_.string(), extra);
    return models::load_script_model(path_);
  }

  static std::unique_ptr<models::Model> model_of(const models::ModelEntry& entry) {
    return entry.make(models::complete(entry, {}));
  }

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

}  // namespace shoal::testing
