#include "checkpoint/foreign_selection.h"

#include <map>

#include "checkpoint/chosen_names.h"
#include "checkpoint/file_names.h"
#include "checkpoint/foreign_names.h"

namespace shoal::checkpoint {
namespace {

// For each of the model's tensors, by its own name: those of its names that are wanted.
using Wanted = std::map<std::string, std::vector<std::string>, std::less<>>;

Wanted wanted_names(const ForeignState& state, ChosenNames& names) {
  Wanted wanted;
  const auto add = [&](std::string_view tensor, std::string_view name) {
    if (names.wants(std::string(name))) wanted[std::string(tensor)].emplace_back(name);
  };
  for (const TensorSpec& spec : state.contents.tensors)
    if (is_model_tensor(spec.name)) add(parameter_name(spec.name), parameter_name(spec.name));
  for (const auto& [alias, name] : state.aliases) add(parameter_name(name), parameter_name(alias));
  return wanted;
}

std::string in_model(const std::string& name) { return std::string(kModelPrefix) + name; }

void rename(TensorSpec& spec, const std::string& parameter, ChosenNames& names) {
  const std::size_t before = spec.name.size() - parameter_name(spec.name).size();
  spec.name = spec.name.substr(0, before) + names.renamed(parameter);
}

}  // namespace

void choose_tensors(ForeignState& state, const std::vector<std::string>& select, const RenameRules& rules) {
  if (select.empty() && rules.empty()) return;
  ChosenNames names(select, rules);
  const Wanted wanted = wanted_names(state, names);
  std::erase_if(state.contents.others, [&](const formats::OtherEntry& other) {
    return !names.wants(is_model_tensor(other.name) ? std::string(parameter_name(other.name)) : other.name);
  });
  names.check_used();
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < state.contents.tensors.size(); ++i) {
    TensorSpec& spec = state.contents.tensors[i];
    const std::string own(parameter_name(spec.name));
    const auto found = wanted.find(own);
    const bool without_parameter = !is_model_tensor(spec.name) && select.empty();
    if (found == wanted.end() && !without_parameter) continue;
    rename(spec, found == wanted.end() ? own : found->second.front(), names);
    kept.push_back(i);
  }
  state.aliases.clear();
  for (const auto& [tensor, own] : wanted)
    for (std::size_t i = 1; i < own.size(); ++i)
      state.aliases.emplace_back(in_model(names.renamed(own[i])), in_model(names.renamed(own.front())));
  keep_tensors(state, kept);
}

}  // namespace shoal::checkpoint
