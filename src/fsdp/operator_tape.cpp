#include "fsdp/operator_tape.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include "core/check.h"

namespace shoal::fsdp {
namespace {

bool is_default(const at::Generator& generator) {
  const at::Device device = generator.device();
  return at::globalContext().defaultGenerator(device) == generator;
}

// A value that stays what it is, whatever the caller does to his own later.
c10::IValue frozen(const c10::IValue& value) {
  if (value.isGenerator()) {
    const at::Generator generator = value.toGenerator();
    return generator.defined() && !is_default(generator) ? c10::IValue(generator.clone()) : value;
  }
  return value.isList() ? c10::IValue(value.toList().copy()) : value;
}

// What play() hands to the operator: a generator that it may advance.
c10::IValue thawed(const c10::IValue& value) { return value.isGenerator() || value.isList() ? frozen(value) : value; }

}  // namespace

RecordedCall::RecordedCall(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, RefOf ref_of)
    : op_(op), caller_(torch_internals::CallerState::current()) {
  arguments_.reserve(arguments.size());
  for (const c10::IValue& value : arguments) capture(value, ref_of);
}

void RecordedCall::capture(const c10::IValue& value, RefOf ref_of) {
  Argument argument{.first = static_cast<std::uint32_t>(refs_.size())};
  if (value.isTensor()) {
    argument.kind = Kind::tensor;
    add(value.toTensor(), ref_of);
  } else if (value.isTensorList()) {
    argument.kind = Kind::tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) add(tensor, ref_of);
  } else if (value.isOptionalTensorList()) {
    argument.kind = Kind::optional_tensors;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      add(tensor.value_or(at::Tensor()), ref_of);
  } else {
    argument.value = frozen(value);
  }
  argument.count = static_cast<std::uint32_t>(refs_.size()) - argument.first;
  arguments_.push_back(std::move(argument));
}

void RecordedCall::add(const at::Tensor& tensor, RefOf ref_of) {
  refs_.push_back(tensor.defined() ? ref_of(tensor) : TensorRef{});
  refs_.back().requires_grad = tensor.defined() && tensor.requires_grad();
}

std::string RecordedCall::name() const {
  const c10::OperatorName& name = op_.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::span<const TensorRef> RecordedCall::refs_of(std::size_t argument) const {
  return std::span(refs_).subspan(arguments_[argument].first, arguments_[argument].count);
}

c10::IValue RecordedCall::value_of(const Argument& argument, TensorOf tensor_of) const {
  const auto refs = std::span(refs_).subspan(argument.first, argument.count);
  const auto tensor = [&](const TensorRef& ref) { return ref.is_none() ? at::Tensor() : tensor_of(ref); };
  switch (argument.kind) {
    case Kind::plain: return thawed(argument.value);
    case Kind::tensor: return tensor(refs[0]);
    case Kind::tensors: {
      c10::List<at::Tensor> list;
      for (const TensorRef& ref : refs) list.push_back(tensor(ref));
      return list;
    }
    case Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const TensorRef& ref : refs) list.push_back(ref.is_none() ? std::nullopt : std::optional(tensor(ref)));
      return list;
    }
  }
  throw InternalError("an argument of no kind");
}

std::vector<at::Tensor> RecordedCall::play(TensorOf tensor_of) const {
  std::vector<c10::IValue> stack;
  stack.reserve(arguments_.size());
  for (const Argument& argument : arguments_) stack.push_back(value_of(argument, tensor_of));
  const torch_internals::CallerScope as_then(caller_);
  op_.callBoxed(&stack);
  return tensors_among(stack);
}

std::vector<at::Tensor> tensors_among(std::span<const c10::IValue> results) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& result : results) {
    if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) tensors.push_back(tensor);
    } else {
      tensors.push_back(result.isTensor() ? result.toTensor() : at::Tensor());
    }
  }
  return tensors;
}

int OperatorTape::append(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments,
                         RecordedCall::RefOf outside) {
  calls_.emplace_back(op, arguments, [&](const at::Tensor& tensor) {
    if (const auto ref = find(tensor)) return *ref;
    return outside(tensor);
  });
  return static_cast<int>(calls_.size()) - 1;
}

void OperatorTape::made(int call, std::span<const at::Tensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined())
      made_.insert_or_assign(tensors[i].unsafeGetTensorImpl(),
                             Result{Weak(tensors[i].getIntrusivePtr()), call, static_cast<int>(i)});
}

std::optional<TensorRef> OperatorTape::find(const at::Tensor& tensor) const {
  const auto found = made_.find(tensor.unsafeGetTensorImpl());
  if (found == made_.end()) return std::nullopt;
  return TensorRef{.call = found->second.call, .output = found->second.output};
}

}  // namespace shoal::fsdp
