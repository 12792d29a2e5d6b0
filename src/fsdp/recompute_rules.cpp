#include "fsdp/recompute_rules.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace shoal::fsdp {
namespace {

constexpr std::array<std::string_view, 12> kMatrixProducts{
    "aten::mm", "aten::addmm", "aten::bmm",    "aten::baddbmm", "aten::matmul",     "aten::linear",
    "aten::mv", "aten::addmv", "aten::addbmm", "aten::einsum",  "aten::_scaled_mm", "aten::bilinear"};

// Fused operators (src/fused) that multiply with a weight, whatever else they do on the way.
constexpr std::array<std::string_view, 3> kFusedProducts{"shoal::linear", "shoal::gelu_mlp",
                                                         "shoal::linear_cross_entropy"};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

template <std::size_t kCount>
bool is_among(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Operators of LibTorch's and ours do nothing that their schema does not say.
bool is_known(std::string_view name) { return name.starts_with("aten::") || name.starts_with("shoal::"); }

bool is_expensive(std::string_view name) {
  return is_among(kMatrixProducts, name) || is_among(kFusedProducts, name) || name.starts_with("aten::conv") ||
         name.starts_with("aten::_conv") || contains(name, "attention");
}

bool is_uninitialised(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

bool draws_numbers(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  return op.hasTag(at::Tag::nondeterministic_seeded) ||
         std::any_of(arguments.begin(), arguments.end(),
                     [](const c10::Argument& a) { return a.name() == "generator"; });
}

bool holds_tensors(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::TensorType::get())) return true;
  const auto inner = type->containedTypes();
  return std::any_of(inner.begin(), inner.end(), holds_tensors);
}

OperatorTraits make_traits(const c10::OperatorHandle& op) {
  OperatorTraits traits;
  for (const c10::Argument& argument : op.schema().arguments()) {
    const bool declared = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool statistics = argument.name() == "running_mean" || argument.name() == "running_var";
    traits.writes.push_back(declared || statistics);
    traits.writes_any = traits.writes_any || declared || statistics;
  }
  for (const c10::Argument& result : op.schema().returns())
    traits.makes_tensors = traits.makes_tensors || holds_tensors(result.type());
  const std::string_view name = op.operator_name().name;
  traits.random = draws_numbers(op);
  traits.has_effects = traits.writes_any || traits.random || !is_known(name);
  traits.uninitialised = is_uninitialised(name);
  traits.expensive = is_expensive(name) && !traits.writes_any;
  return traits;
}

}  // namespace

const OperatorTraits& traits_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<c10::OperatorHandle, OperatorTraits> known;
  const auto found = known.find(op);
  return found != known.end() ? found->second : known.emplace(op, make_traits(op)).first->second;
}

std::string obstacle_to_replay(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) continue;
    const bool has_state = value.isObject() || value.isCapsule() || value.isPyObject() || value.isStorage() ||
                           value.isGenericDict() || value.isFuture() || value.isStream();
    const bool hides_tensors =
        value.isTuple() || (value.isList() && !value.toListRef().empty() && value.toListRef()[0].isTensor());
    if (has_state || hides_tensors) return "takes an argument (" + value.tagKind() + ") whose state cannot be kept";
  }
  return "";
}

}  // namespace shoal::fsdp
