// What a TorchScript file tells about itself: the record extra/shoal.json of its archive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "models/registry.h"

namespace shoal::models {

inline constexpr int kScriptFormat = 1;  // newer ones are refused

struct ScriptDescription {
  std::filesystem::path path;
  std::string name;
  std::string data;    // tokens | masked_tokens | mnist
  std::string module;  // the child of the root that is the model; empty: the root
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  std::int64_t mask_token = -1;
  std::vector<std::string> dtypes;               // that its methods are made for: fp32, bf16, fp16; empty: any
  std::set<std::string> non_persistent_buffers;  // FQNs below `module`
  TrainingDefaults defaults;
};

// OptionError that names --model-script for what is no TorchScript file and for a description that is missing, of a
// newer format or malformed.
ScriptDescription read_script_description(const std::filesystem::path& path);

}  // namespace shoal::models
