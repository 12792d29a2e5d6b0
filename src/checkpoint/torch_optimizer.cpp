#include "checkpoint/torch_optimizer.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/check.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace shoal::checkpoint {
namespace {

using formats::TorchStorage;
using formats::TorchValue;
using Dict = TorchValue::Dict;

// What the training state says of the optimizer.
struct Trained {
  optim::OptimizerOptions rule;
  double lr = 0;
  std::int64_t steps = 0;
  optim::ParameterGroups groups;
};

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

Trained trained_from(const nlohmann::json& state) {
  const auto option = [&](const char* name) { return state.at("options").at(name).get<std::string>(); };
  Trained trained;
  trained.rule.name = option("optimizer");
  trained.rule.weight_decay = std::stod(option("weight-decay"));
  trained.rule.momentum = std::stod(option("momentum"));
  const std::vector<std::string> betas = words_of(option("betas"), ',');
  trained.rule.beta1 = std::stod(betas.at(0));
  trained.rule.beta2 = std::stod(betas.at(1));
  trained.lr = std::stod(option("lr"));
  trained.steps = state.value("optimizer_steps", state.at("step").get<std::int64_t>());
  const std::string groups = option("param-group");
  trained.groups = optim::ParameterGroups::parse(option("no-decay"),
                                                 groups == "none" ? std::vector<std::string>{} : words_of(groups, ' '));
  return trained;
}

Trained trained_of(const Manifest& manifest) {
  try {
    return trained_from(nlohmann::json::parse(manifest.training_state));
  } catch (const std::exception& error) {
    throw CheckpointError(
        "checkpoint {}: its training state does not tell how the optimizer was set ({}), which torch wants to know: "
        "export with --format hdf5, or without --with-optimizer",
        manifest.id, error.what());
  }
}

struct Parameter {
  std::string name;
  std::int64_t dims = 0;
  std::map<std::string, std::size_t> states;  // name → tensor of the plan
};

std::vector<Parameter> parameters_of(const Manifest& manifest, const ExportPlan& plan) {
  std::map<std::string, std::map<std::string, std::size_t>> states;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i)
    if (!plan.tensors[i].state.empty()) states[plan.tensors[i].spec.name][plan.tensors[i].state] = i;
  std::vector<Parameter> parameters;
  for (const auto& [source, spec, state] : plan.tensors) {
    if (!state.empty()) continue;
    const auto found = states.find(spec.name);
    const bool sharded = !manifest.tensors[source].rule.unit.empty();
    if (found != states.end() || (states.empty() && sharded && is_floating(spec.dtype)))
      parameters.push_back({spec.name, static_cast<std::int64_t>(spec.shape.size()),
                            found == states.end() ? std::map<std::string, std::size_t>{} : found->second});
  }
  return parameters;
}

Dict hyperparameters(const Trained& trained, const optim::GroupRule& rule) {
  const optim::OptimizerOptions& all = trained.rule;
  const double lr = trained.lr * rule.lr_scale;
  Dict group;
  const auto add = [&](const char* name, TorchValue value) { group.add({name}, std::move(value)); };
  add("lr", {lr});
  add("initial_lr", {lr});
  add("weight_decay", {rule.weight_decay.value_or(all.weight_decay)});
  for (const char* off : {"maximize", "differentiable"}) add(off, {false});
  add("foreach", {});
  if (all.name == "sgd") {
    add("momentum", {all.momentum});
    add("dampening", {0.0});
    add("nesterov", {false});
    add("fused", {});
    return group;
  }
  add("capturable", {false});
  add("eps", {all.name == "adadelta" ? all.adadelta_eps : all.eps});
  if (all.name == "adadelta") {
    add("rho", {all.rho});
    return group;
  }
  add("betas", {TorchValue::Tuple{{all.beta1, all.beta2}}});
  add("amsgrad", {false});
  add("fused", {});
  add("decoupled_weight_decay", {all.name == "adamw"});
  return group;
}

// torch counts in a float32 tensor of its own for each parameter.
TorchValue step_value(std::int64_t steps, std::vector<TorchStorage>& storages) {
  const auto value = static_cast<float>(steps);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  storages.push_back({DType::float32, {}, std::move(bytes)});
  return {TorchValue::Tensor{storages.size() - 1}};
}

Dict state_of(const Parameter& parameter, const Trained& trained, std::vector<TorchStorage>& storages) {
  Dict state;
  if (trained.rule.name != "sgd" && !parameter.states.contains("step"))
    state.add({"step"}, step_value(trained.steps, storages));
  for (const auto& [name, tensor] : parameter.states) state.add({name}, {TorchValue::Tensor{tensor}});
  return state;
}

struct Group {
  optim::GroupRule rule;
  std::vector<const Parameter*> parameters;
};

std::vector<Group> groups_of(const std::vector<Parameter>& parameters, const Trained& trained) {
  std::vector<Group> groups;
  for (const Parameter& parameter : parameters) {
    const optim::GroupRule rule = trained.groups.match(parameter.name, parameter.dims);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.rule == rule; });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{rule, {}});
    group->parameters.push_back(&parameter);
  }
  return groups;
}

}  // namespace

TorchValue optimizer_state_dict(const Manifest& manifest, const ExportPlan& plan, std::vector<TorchStorage>& storages) {
  const Trained trained = trained_of(manifest);
  const std::vector<Parameter> parameters = parameters_of(manifest, plan);
  Dict states;
  TorchValue::List groups;
  std::int64_t index = 0;
  for (const Group& group : groups_of(parameters, trained)) {
    Dict described = hyperparameters(trained, group.rule);
    TorchValue::List indices, names;
    for (const Parameter* parameter : group.parameters) {
      if (!parameter->states.empty()) states.add({index}, {state_of(*parameter, trained, storages)});
      indices.push_back({index++});
      names.push_back({parameter->name});
    }
    described.add({"params"}, {std::move(indices)});
    described.add({"param_names"}, {std::move(names)});
    groups.push_back({std::move(described)});
  }
  Dict all;
  all.add({"state"}, {std::move(states)});
  all.add({"param_groups"}, {std::move(groups)});
  return {std::move(all)};
}

}  // namespace shoal::checkpoint
