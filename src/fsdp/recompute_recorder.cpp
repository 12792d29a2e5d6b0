#include "fsdp/recompute_recorder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <exception>

#include "core/logging.h"

namespace shoal::fsdp {
namespace {

using torch_internals::OperatorCall;
using torch_internals::SavedTensor;
using torch_internals::storage_identity;
using torch_internals::storage_user;
using torch_internals::version_of;
using torch_internals::without_history;

std::span<const c10::IValue> last(const std::vector<c10::IValue>& stack, std::size_t count) {
  return std::span(stack).last(count);
}

std::span<const c10::IValue> arguments_of(const OperatorCall& call) {
  return last(call.stack(), call.op().schema().arguments().size());
}

const c10::TensorImpl* first_parameter_of(const OperatorCall& call) {
  for (const c10::IValue& value : arguments_of(call))
    if (value.isTensor() && value.toTensor().defined() && storage_user(value.toTensor()) != nullptr)
      return value.toTensor().unsafeGetTensorImpl();
  return nullptr;
}

}  // namespace

SegmentRecorder::SegmentRecorder(std::string unit, at::Device device, bool selective,
                                 torch_internals::TensorSaver* input_saver)
    : segment_(std::make_shared<Segment>(std::move(unit), device)),
      record_(&segment_->record()),
      selective_(selective),
      input_saver_(input_saver) {}

SegmentRecorder::~SegmentRecorder() {
  record_->tape.close();
  if (input_saver_) hand_over_inputs();
  plan(*record_);
}

// What was changed since its first use stays as it is, for the replay to refuse. After the replay nothing is left.
void SegmentRecorder::hand_over_inputs() noexcept {
  try {
    for (std::size_t i = 0; i < record_->outside.size(); ++i) {
      OutsideTensor& outside = record_->outside[i];
      if (outside.copy.defined() || version_of(outside.tensor) != outside.version) continue;
      outside.saved = input_saver_->save(originals_[i]);
      outside.tensor.reset();
    }
  } catch (const std::exception& error) {
    log::warning("the rest of what unit '{}' was given stays on the device: {}", record_->unit, error.what());
  }
}

bool SegmentRecorder::begins_again(const OperatorCall& call) const {
  return first_op_ && first_parameter_ != nullptr && call.op() == *first_op_ &&
         first_parameter_of(call) == first_parameter_;
}

void SegmentRecorder::run(OperatorCall& call) {
  const OperatorTraits& traits = traits_of(call.op());
  op_ = &call.op();
  if (!first_op_) {
    first_op_ = call.op();
    first_parameter_ = first_parameter_of(call);
  }
  // Numbers are for the host alone. Memory without values yet is taken as it is when an operator first uses it.
  if (traits.uninitialised || (!traits.makes_tensors && !traits.writes_any)) return call.run();
  append(call.op(), traits, arguments_of(call));
  {
    const torch_internals::SaveScope saving(*this);
    call.run();
  }
  finish_call(traits, last(call.stack(), call.op().schema().returns().size()));
}

void SegmentRecorder::append(const c10::OperatorHandle& op, const OperatorTraits& traits, Arguments arguments) {
  if (const std::string obstacle = obstacle_to_replay(arguments); !obstacle.empty()) refuse(obstacle);
  record_->tape.append(op, arguments, [this](const at::Tensor& tensor) { return outside(tensor); });
  record_->notes.push_back({.kept = selective_ && traits.expensive});
  arguments_.clear();
  if (!traits.writes_any && !record_->notes.back().kept) return;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    for (const at::Tensor& tensor : tensors_among(arguments.subspan(i, 1))) {
      if (!tensor.defined()) continue;
      if (traits.writes[i]) before_write(tensor);
      if (!record_->notes.back().kept) continue;
      if (const auto ref = record_->tape.find(tensor)) arguments_.emplace(storage_identity(tensor), *ref);
    }
}

TensorRef SegmentRecorder::outside(const at::Tensor& tensor) {
  const auto [known, is_new] = outside_by_tensor_.emplace(tensor.unsafeGetTensorImpl(), originals_.size());
  const std::size_t number = known->second;
  if (is_new) {
    originals_.push_back(tensor);
    const void* const storage = storage_identity(tensor);
    const auto [first, is_first] = outside_by_storage_.emplace(storage, number);
    if (!is_first && storage != nullptr) {
      shared_storages_.insert(storage);
      if (record_->outside[first->second].copy.defined())
        refuse("reads memory that the unit wrote to through another tensor");
    }
    record_->outside.push_back({.tensor = without_history(tensor),
                                .requires_grad = tensor.requires_grad(),
                                .version = version_of(tensor),
                                .first_call = static_cast<int>(record_->notes.size())});
  }
  // The tape only has to know that there is a tensor: replays take it from the record.
  static const at::Tensor any = at::empty({0});
  return {.output = static_cast<int>(number), .outside = any};
}

bool SegmentRecorder::is_outside(const at::Tensor& tensor) const {
  const void* const storage = storage_identity(tensor);
  return storage != nullptr ? outside_by_storage_.contains(storage)
                            : outside_by_tensor_.contains(tensor.unsafeGetTensorImpl());
}

void SegmentRecorder::before_write(const at::Tensor& tensor) {
  if (storage_user(tensor) != nullptr) refuse("writes to a parameter");
  const void* const storage = storage_identity(tensor);
  if (storage == nullptr) refuse("writes to a tensor that is not dense");
  if (const auto kept = kept_by_storage_.find(storage); kept != kept_by_storage_.end()) {
    const at::NoGradGuard no_grad;
    CallNote& note = record_->notes[static_cast<std::size_t>(kept->second.call)];
    const auto output = static_cast<std::size_t>(kept->second.output);
    note.results[output] = note.results[output].clone();
    note.versions[output] = version_of(note.results[output]);
    kept_by_storage_.erase(kept);
  }
  const auto known = outside_by_storage_.find(storage);
  if (known == outside_by_storage_.end() || record_->outside[known->second].copy.defined()) return;
  if (tensor.requires_grad() || record_->outside[known->second].requires_grad)
    refuse("changes in place what came from outside of the unit and needs a gradient");
  if (shared_storages_.contains(storage))
    refuse("writes to memory that several tensors from outside of the unit share");
  copy_before_write(known->second);
}

void SegmentRecorder::copy_before_write(std::size_t outside) {
  const at::NoGradGuard no_grad;
  record_->outside[outside].copy = record_->outside[outside].tensor.clone();
}

// What an operator saves of its own making cannot be told from what it was given but by the memory.
std::unique_ptr<SavedTensor> SegmentRecorder::save(const at::Tensor& tensor) {
  CallNote& note = record_->notes.back();
  DroppedTensor dropped{.call = static_cast<int>(record_->notes.size()) - 1, .ordinal = note.saved++};
  if (storage_user(tensor) != nullptr || is_outside(tensor))
    return input_saver_ ? input_saver_->save(tensor) : keep_by_reference(tensor, record_->unit, *op_);
  if (note.kept) {
    dropped.view = as_view_of_argument(tensor);
    if (!dropped.view) return keep_by_reference(tensor, record_->unit, *op_);
  }
  return segment_->drop(std::move(dropped));
}

std::optional<ResultView> SegmentRecorder::as_view_of_argument(const at::Tensor& tensor) const {
  const auto argument = arguments_.find(storage_identity(tensor));
  const bool plain = tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg();
  if (argument == arguments_.end() || !plain) return std::nullopt;
  return ResultView{argument->second, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()};
}

bool SegmentRecorder::is_view_of_argument(const at::Tensor& tensor) const {
  return arguments_.contains(storage_identity(tensor)) || is_outside(tensor);
}

void SegmentRecorder::finish_call(const OperatorTraits& traits, Arguments results) {
  const int call = static_cast<int>(record_->notes.size()) - 1;
  CallNote& note = record_->notes.back();
  const std::vector<at::Tensor> tensors = tensors_among(results);
  record_->tape.made(call, tensors);
  note.ran = true;
  if (!note.kept) return;
  for (const at::Tensor& tensor : tensors) note.kept = note.kept && tensor.defined() && !is_view_of_argument(tensor);
  if (!note.kept) return;
  for (const at::Tensor& tensor : tensors) {
    kept_by_storage_.insert_or_assign(storage_identity(tensor), Place{call, static_cast<int>(note.results.size())});
    note.results.push_back(without_history(tensor));
    note.versions.push_back(version_of(tensor));
  }
  if (traits.random) note.random = RandomState::current(record_->device);
}

void SegmentRecorder::refuse(const std::string& reason) const {
  const c10::OperatorName& name = op_->operator_name();
  refuse_replay(record_->unit, name.overload_name.empty() ? name.name : name.name + "." + name.overload_name, reason);
}

}  // namespace shoal::fsdp
