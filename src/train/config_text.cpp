#include "train/config_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

namespace shoal::train {
namespace {

template <std::size_t N>
bool is_one_of(const std::string& name, const std::array<const char*, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Shown with a value that says "not given", and that nobody can give.
bool is_not_given(const std::string& name, const std::string& value) {
  constexpr std::array kNone{"model-plugin", "model-script", "init-from", "data", "special-tokens", "trace"};
  constexpr std::array kZero{"sequence-length", "shard-size"};
  if (value.empty() || (name == "test-data" && value == "auto")) return true;
  return value == "none" ? is_one_of(name, kNone) : value == "0" && is_one_of(name, kZero);
}

}  // namespace

std::string config_text(const TrainOptions& options) {
  // Those that may be given several times: a line for each.
  const std::map<std::string, const std::vector<std::string>*> lists{
      {"param-group", &options.optimizer.param_groups},
      {"allow-missing", &options.checkpoint.allow_missing},
      {"allow-extra", &options.checkpoint.allow_extra},
      {"rename", &options.checkpoint.rename}};
  std::string text;
  for (const auto& [name, value] : resolved(options)) {
    if (is_not_given(name, value) || lists.contains(name)) continue;
    // Of three numbers that agree two are enough, and rounding may have moved this one.
    const bool follows = name == "batch-size" && !options.run.deterministic;
    // A model out of a file is named by the file.
    const bool of_script = name == "model" && !options.model.script.empty();
    text += fmt::format("{}{} = {}\n", follows || of_script ? "# " : "", name, value);
  }
  for (const auto& [name, values] : lists)
    for (const std::string& value : *values) text += fmt::format("{} = {}\n", name, value);
  if (!options.model.deferred_init) text += "no-deferred-init = on\n";
  return text;
}

}  // namespace shoal::train
