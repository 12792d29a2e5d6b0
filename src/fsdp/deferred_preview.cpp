#include "fsdp/deferred_preview.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "fsdp/operator_tape.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

using torch_internals::meta_storage;
using torch_internals::storage_identity;
using torch_internals::tensor_in;
using torch_internals::view_of;

c10::IValue with_tensors(const c10::IValue& value, c10::function_ref<at::Tensor(const at::Tensor&)> replace) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(replace(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(t.defined() ? replace(t) : t);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      list.push_back(t && t->defined() ? std::optional(replace(*t)) : t);
    return list;
  }
  return value;
}

std::vector<at::Tensor> defined_tensors(std::span<const c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values)
    with_tensors(value, [&](const at::Tensor& tensor) { return tensors.emplace_back(tensor); });
  return tensors;
}

at::Tensor Preview::twin_of(const at::Tensor& tensor) {
  for (const Twin& known : twins_)
    if (known.original.is_same(tensor)) return known.twin;
  const void* const storage = storage_identity(tensor);
  const auto known = storages_.find(storage);
  const c10::Storage& meta = known != storages_.end()
                                 ? known->second
                                 : storages_.emplace(storage, meta_storage(tensor.storage().nbytes())).first->second;
  twins_.push_back({tensor, tensor_in(meta, view_of(tensor)), view_of(tensor)});
  return twins_.back().twin;
}

c10::IValue Preview::argument_for_meta(const c10::IValue& value) {
  if (value.isDevice()) return at::Device(at::kMeta);
  if (value.isGenerator()) return {};
  return with_tensors(value, [this](const at::Tensor& tensor) { return twin_of(tensor); });
}

std::optional<Preview> Preview::of(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) {
  const at::NoGradGuard no_grad;
  Preview preview;
  for (const c10::IValue& value : arguments) preview.results_.push_back(preview.argument_for_meta(value));
  if (preview.twins_.empty())  // it makes tensors out of nothing, on the CPU where it is not told where
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (op.schema().arguments()[i].name() == "device") preview.results_[i] = at::Device(at::kMeta);
  try {
    op.callBoxed(&preview.results_);
  } catch (const c10::Error&) {
    return std::nullopt;  // who calls the operator with values gets its own message
  }
  preview.compare_arguments();
  preview.find_fresh();
  return preview;
}

void Preview::compare_arguments() {
  for (const Twin& t : twins_) {
    const c10::Storage& before = storages_.at(storage_identity(t.original));
    reshapes_ = reshapes_ || view_of(t.twin) != t.view;
    resizes_ = resizes_ || !t.twin.storage().is_alias_of(before) || before.nbytes() != t.original.storage().nbytes();
  }
}

const Preview::Twin* Preview::sharing_memory(const at::Tensor& result) const {
  const auto shares = [&](const Twin& t) { return t.twin.storage().is_alias_of(result.storage()); };
  const auto found = std::find_if(twins_.begin(), twins_.end(), shares);
  return found != twins_.end() ? &*found : nullptr;
}

void Preview::find_fresh() {
  for (const at::Tensor& result : tensors_among(results_)) {
    if (!result.defined() || sharing_memory(result) != nullptr) continue;
    const auto same = [&](const c10::Storage& known) { return known.is_alias_of(result.storage()); };
    if (std::none_of(fresh_.begin(), fresh_.end(), same)) fresh_.push_back(result.storage());
  }
}

std::size_t Preview::fresh_bytes() const {
  std::size_t bytes = 0;
  for (const c10::Storage& storage : fresh_) bytes += storage.nbytes();
  return bytes;
}

std::vector<c10::IValue> Preview::results(c10::function_ref<c10::Storage(std::size_t bytes)> fresh) const {
  std::vector<c10::Storage> made;
  for (const c10::Storage& storage : fresh_) made.push_back(fresh(storage.nbytes()));
  const auto on_cpu = [&](const at::Tensor& result) {
    for (const Twin& t : twins_)
      if (t.twin.is_same(result)) return t.original;
    if (const Twin* const sharer = sharing_memory(result))
      return tensor_in(sharer->original.storage(), view_of(result));
    const auto same = [&](const c10::Storage& known) { return known.is_alias_of(result.storage()); };
    const auto place = std::find_if(fresh_.begin(), fresh_.end(), same) - fresh_.begin();
    return tensor_in(made[static_cast<std::size_t>(place)], view_of(result));
  };
  std::vector<c10::IValue> all;
  for (const c10::IValue& result : results_) all.push_back(with_tensors(result, on_cpu));
  return all;
}

}  // namespace shoal::fsdp
