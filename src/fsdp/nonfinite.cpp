#include "fsdp/nonfinite.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "fsdp/operator_tape.h"
#include "fsdp/runtime.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

using Values = std::span<const c10::IValue>;

struct Faults {
  bool nan = false, infinite = false;
  Faults& operator|=(const Faults& other) {
    nan = nan || other.nan;
    infinite = infinite || other.infinite;
    return *this;
  }
};

bool can_be_checked(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.numel() == 0 || tensor.is_meta()) return false;
  constexpr std::array kTypes{at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kComplexDouble, at::kComplexFloat};
  return std::find(kTypes.begin(), kTypes.end(), tensor.scalar_type()) != kTypes.end();
}

Faults faults_of(const at::Tensor& tensor) {
  if (!can_be_checked(tensor)) return {};
  return {at::isnan(tensor).any().item<bool>(), at::isinf(tensor).any().item<bool>()};
}

Faults faults_of(const c10::IValue& value) {
  if (value.isDouble()) return {std::isnan(value.toDouble()), std::isinf(value.toDouble())};
  Faults faults;
  if (value.isTensor()) return faults_of(value.toTensor());
  if (value.isOptionalTensorList()) return {};  // indices
  if (value.isList())
    for (const c10::IValue& element : value.toListRef()) faults |= faults_of(element);
  return faults;
}

// What the arguments bring along; a tensor for results alone brings nothing.
Faults faults_of_arguments(const c10::FunctionSchema& schema, Values arguments) {
  Faults faults;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (!schema.arguments()[i].is_out()) faults |= faults_of(arguments[i]);
  return faults;
}

bool makes_views(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

// Operators whose results are values that they were given. Overloads and the forms that work in place count too.
bool moves_values(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 32> kMovers{"clone",          "contiguous",   "copy",
                                                     "_to_copy",       "to",           "cat",
                                                     "concat",         "stack",        "index",
                                                     "index_select",   "index_put",    "index_copy",
                                                     "gather",         "scatter",      "masked_fill",
                                                     "masked_scatter", "where",        "full",
                                                     "full_like",      "new_full",     "fill",
                                                     "scalar_tensor",  "repeat",       "flip",
                                                     "roll",           "pad",          "constant_pad_nd",
                                                     "tril",           "triu",         "reshape",
                                                     "flatten",        "masked_select"};
  std::string_view name = op.operator_name().name;
  if (!name.starts_with("aten::")) return false;
  name.remove_prefix(std::string_view("aten::").size());
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::find(kMovers.begin(), kMovers.end(), name) != kMovers.end() || makes_views(op.schema());
}

bool has_no_values_yet(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

// Why the operator is to blame; null where it is not.
const char* blame(const c10::OperatorHandle& op, const Faults& given, const Faults& made) {
  if (made.nan && !given.nan) return "";
  if (made.nan && !moves_values(op)) return ", which was given a value that is not a number";
  if (made.infinite && !given.infinite && !given.nan) return "";
  return nullptr;
}

}  // namespace

void NonfiniteFinder::call(torch_internals::OperatorCall& call) {
  const c10::FunctionSchema& schema = call.op().schema();
  const Values arguments = Values(call.stack()).last(schema.arguments().size());
  notice_unit(arguments);
  if (!found_.empty() || has_no_values_yet(call.op())) return call.run();
  const Faults given = faults_of_arguments(schema, arguments);  // before an operator in place changes them
  call.run();
  Faults made;
  for (const at::Tensor& tensor : tensors_among(Values(call.stack()).last(schema.returns().size())))
    made |= faults_of(tensor);
  if (const char* const why = blame(call.op(), given, made))
    found_ = fmt::format("unit '{}', operator {}{}", unit_, call.op().operator_name().name, why);
}

void NonfiniteFinder::notice_unit(Values arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    for (const at::Tensor& tensor : tensors_among(arguments.subspan(i, 1))) {
      const auto* const user = tensor.defined() ? torch_internals::storage_user(tensor) : nullptr;
      if (user != nullptr && &user->owner() == owner_) unit_ = static_cast<const FlatParameter*>(user)->unit().name();
    }
}

std::string FullyShardedModule::find_nonfinite(const std::function<void()>& body) {
  const at::NoGradGuard no_grad;
  NonfiniteFinder finder(*runtime_);
  runtime_->run([&] {
    const torch_internals::ListenScope listen(finder);
    body();
  });
  return finder.found();
}

}  // namespace shoal::fsdp
