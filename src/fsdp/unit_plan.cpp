#include "fsdp/unit_plan.h"

#include <torch/nn/module.h>

#include <map>
#include <unordered_map>

#include "core/check.h"
#include "fsdp/torch_internals.h"
#include "fsdp/unit_sizes.h"
#include "fsdp/wrap_policy.h"

namespace shoal::fsdp {
namespace {

using torch::nn::Module;

// The innermost unit around module `fqn`.
UnitMembers& unit_around(std::vector<UnitMembers>& units, const std::string& fqn) {
  UnitMembers* best = units.data();
  for (UnitMembers& unit : units)
    if (is_within(fqn, unit.fqn) && unit.fqn.size() >= best->fqn.size()) best = &unit;
  return *best;
}

void check_parameter(const std::string& fqn, const at::Tensor& tensor) {
  SHOAL_CHECK(tensor.defined() && tensor.layout() == at::kStrided && tensor.is_leaf(), OptionError,
              "parameter '{}' cannot be sharded: it must be a dense tensor that is not computed from others", fqn);
  SHOAL_CHECK(!tensor.grad().defined(), OptionError,
              "parameter '{}' has a gradient already; call zero_grad() before fully_shard()", fqn);
}

}  // namespace

UnitPlan plan_units(Module& root, const WrapPolicy& policy) {
  UnitPlan plan;
  plan.units.push_back({.fqn = ""});
  for (const ModuleUnit& unit : policy.select(root))
    plan.units.push_back({.fqn = unit.fqn, .recomputable = unit.recomputable});
  std::unordered_map<const void*, std::string> by_impl, by_storage;
  for (const auto& module : root.named_modules()) {
    for (const auto& item : module.value()->named_parameters(/*recurse=*/false)) {
      const std::string fqn = module.key().empty() ? item.key() : module.key() + "." + item.key();
      const at::Tensor& tensor = item.value();
      const auto [known, is_new] = by_impl.emplace(tensor.unsafeGetTensorImpl(), fqn);
      if (!is_new) {
        if (known->second != fqn) plan.aliases.emplace_back(fqn, known->second);
        continue;
      }
      check_parameter(fqn, tensor);
      const auto [sharer, own_storage] = by_storage.emplace(torch_internals::storage_identity(tensor), fqn);
      SHOAL_CHECK(
          own_storage || tensor.numel() == 0, OptionError,
          "parameters '{}' and '{}' share memory but are two tensors; tie them by assigning the same tensor to both",
          sharer->second, fqn);
      unit_around(plan.units, module.key()).parameters.push_back({fqn, tensor});
    }
  }
  std::erase_if(plan.units, [](const UnitMembers& unit) { return unit.parameters.empty(); });
  return plan;
}

std::vector<std::vector<ModuleParameter>> flats_of(const std::vector<ModuleParameter>& parameters) {
  std::map<std::pair<at::ScalarType, bool>, std::vector<ModuleParameter>> kinds;
  for (const ModuleParameter& p : parameters) kinds[{p.tensor.scalar_type(), p.tensor.requires_grad()}].push_back(p);
  std::vector<std::vector<ModuleParameter>> flats;
  for (auto& [kind, members] : kinds) flats.push_back(std::move(members));
  return flats;
}

std::vector<UnitSizes> unit_sizes(Module& module, const WrapPolicy& policy, const MeshShape& mesh,
                                  const FullyShardOptions& options, bool on_cpu) {
  const UnitPlan plan = plan_units(module, policy);
  std::vector<UnitSizes> units;
  for (const UnitMembers& unit : plan.units) {
    units.push_back({.fqn = unit.fqn, .recomputable = unit.recomputable});
    for (const auto& members : flats_of(unit.parameters)) {
      std::vector<std::int64_t> numels;
      for (const ModuleParameter& p : members) numels.push_back(p.tensor.numel());
      units.back().flats.push_back(flat_sizes(layout_of(numels, mesh),
                                              flat_dtypes(members[0].tensor.scalar_type(), options),
                                              members[0].tensor.requires_grad(), mesh, options, on_cpu));
    }
  }
  return units;
}

}  // namespace shoal::fsdp
