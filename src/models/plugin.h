// Models of a user's own in a shared object, for --model-plugin. All of a plug-in's code is its module, its loss and
//
//   SHOAL_MODEL_PLUGIN { shoal::models::add_model({.name = "my-net", …}); }
//
// docs/plugins.md shows how one is written and built, docs/examples/plugin is one.
#pragma once

#include <torch/headeronly/version.h>

#include <filesystem>

#include "models/registry.h"

namespace shoal::models {

// Loads the shared object `path`, which stays loaded to the end of the process, and has it add its models. OptionError
// that names --model-plugin for a file that is missing, no plug-in, built for another Shoal, LibTorch or ABI of the C++
// library, or that adds a model whose name is taken. Nothing of the file runs before its tag was found to be ours.
void load_plugin(const std::filesystem::path& path);

}  // namespace shoal::models

// What a plug-in and the program that loads it must have in common, as text that can be read from a file. The first
// number grows with every change of what the headers of core, data and models mean to a compiler.
#define SHOAL_PLUGIN_TEXT_OF(value) #value
#define SHOAL_PLUGIN_TEXT(value) SHOAL_PLUGIN_TEXT_OF(value)
#define SHOAL_PLUGIN_ABI 2
#define SHOAL_PLUGIN_TAG                                                                         \
  "shoal-plugin-tag: plug-in ABI " SHOAL_PLUGIN_TEXT(                                            \
      SHOAL_PLUGIN_ABI) ", LibTorch " TORCH_VERSION                                              \
                        ", C++ ABI " SHOAL_PLUGIN_TEXT(__GXX_ABI_VERSION) "/" SHOAL_PLUGIN_TEXT( \
                            _GLIBCXX_USE_CXX11_ABI) ";"

// Once in a plug-in, followed by the block that adds its models.
#define SHOAL_MODEL_PLUGIN                                                        \
  extern "C" {                                                                    \
  [[gnu::used, gnu::visibility("default")]] extern const char shoal_plugin_tag[]; \
  const char shoal_plugin_tag[] = SHOAL_PLUGIN_TAG;                               \
  [[gnu::visibility("default")]] void shoal_plugin_add_models();                  \
  }                                                                               \
  void shoal_plugin_add_models()
