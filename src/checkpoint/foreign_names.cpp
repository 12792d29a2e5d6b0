#include "checkpoint/foreign_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "checkpoint/file_names.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

constexpr std::array<std::string_view, 3> kWrappers{"_fsdp_wrapped_module.", "_orig_mod.",
                                                    "_checkpoint_wrapped_module."};
constexpr std::string_view kModule = "module.";

// "optimizer/STATE/NAME" → "optimizer/STATE/", "model/NAME" → "model/".
std::size_t name_begin(const std::string& tensor) {
  return is_model_tensor(tensor) ? kModelPrefix.size() : tensor.find('/', kOptimizerPrefix.size()) + 1;
}

bool has_module(const std::string& tensor) { return tensor.compare(name_begin(tensor), kModule.size(), kModule) == 0; }

std::string optimizer_of(const std::set<std::string>& states, const std::set<std::string>& decoupled) {
  if (states == std::set<std::string>{"exp_avg", "exp_avg_sq"})
    return decoupled.size() != 1 ? "" : *decoupled.begin() == "true" ? "adamw" : "adam";
  if (states == std::set<std::string>{"momentum_buffer"}) return "sgd";
  if (states == std::set<std::string>{"acc_delta", "square_avg"}) return "adadelta";
  return "";
}

}  // namespace

std::string unwrapped(const std::string& name) {
  std::string plain = name;
  for (const std::string_view wrapper : kWrappers)
    for (std::size_t at = plain.find(wrapper); at != std::string::npos; at = plain.find(wrapper, at))
      if (at == 0 || plain[at - 1] == '.')
        plain.erase(at, wrapper.size());
      else
        at += wrapper.size();
  return plain;
}

void strip_module_prefix(ForeignState& state) {
  auto& tensors = state.contents.tensors;
  const bool all = !tensors.empty() && std::all_of(tensors.begin(), tensors.end(),
                                                   [](const TensorSpec& spec) { return has_module(spec.name); });
  if (!all) return;
  const auto strip = [](std::string& name) { name.erase(name_begin(name), kModule.size()); };
  for (TensorSpec& spec : tensors) strip(spec.name);
  for (auto& [alias, name] : state.aliases) {
    strip(alias);
    strip(name);
  }
  state.contents.notes.emplace_back("names had 'module.' in front");
}

void keep_tensors(ForeignState& state, const std::vector<std::size_t>& kept) {
  std::vector<TensorSpec> tensors;
  for (const std::size_t i : kept) tensors.push_back(std::move(state.contents.tensors.at(i)));
  state.contents.tensors = std::move(tensors);
  state.contents.read = [kept, read = std::move(state.contents.read)](std::size_t tensor, std::int64_t begin,
                                                                      std::int64_t count, std::byte* into) {
    read(kept[tensor], begin, count, into);
  };
}

void OptimizerFacts::step(double value, const std::string& name) { steps_.try_emplace(value, name); }

void OptimizerFacts::finish(ForeignState& state) const {
  if (!steps_.empty()) {
    const auto& [first, one] = *steps_.begin();
    const auto& [last, other] = *steps_.rbegin();
    SHOAL_CHECK(
        steps_.size() == 1, CheckpointError,
        "{}: the optimizer has done {} steps for '{}' and {} for '{}'; Shoal has one number for all: import the "
        "weights alone (--weights-only)",
        state.path.string(), first, one, last, other);
    SHOAL_CHECK(first >= 0 && first == std::floor(first) && first < 9e15, CheckpointError,
                "{}: {} is no number of optimizer steps", state.path.string(), first);
    state.step = static_cast<std::int64_t>(first);
  }
  std::set<std::string> states;
  for (const TensorSpec& spec : state.contents.tensors)
    if (!is_model_tensor(spec.name))
      states.insert(spec.name.substr(kOptimizerPrefix.size(), name_begin(spec.name) - 1 - kOptimizerPrefix.size()));
  const auto decoupled = settings_.find("decoupled_weight_decay");
  state.optimizer = optimizer_of(states, decoupled == settings_.end() ? std::set<std::string>{} : decoupled->second);
  for (const auto& [name, values] : settings_) state.settings[name] = fmt::format("{}", fmt::join(values, ", "));
}

}  // namespace shoal::checkpoint
