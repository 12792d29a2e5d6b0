// Which parameters of a module belong to which unit.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace shoal::fsdp {

class WrapPolicy;

// A parameter as the module knows it. Its TensorImpl stays; its storage becomes a view of the flat buffer.
struct ModuleParameter {
  std::string fqn;
  at::Tensor tensor;
};

// The parameters of a module by the unit that holds each, and the names under which tied ones stand again.
struct UnitMembers {
  std::string fqn;           // "" for the root
  bool recomputable = true;  // see ModuleUnit
  std::vector<ModuleParameter> parameters;
};
struct UnitPlan {
  std::vector<UnitMembers> units;  // that have parameters, in the order of named_modules(), the root first
  std::vector<std::pair<std::string, std::string>> aliases;
};

// OptionError for parameters that cannot be sharded.
UnitPlan plan_units(torch::nn::Module& root, const WrapPolicy& policy);

// What becomes one flat parameter each: the parameters of a unit that share their type and are all trained or all
// frozen.
std::vector<std::vector<ModuleParameter>> flats_of(const std::vector<ModuleParameter>& parameters);

}  // namespace shoal::fsdp
