// Operators on a tape, to be played again: each call with its arguments, where tensors are references to what earlier
// calls made, or to what was there before.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fsdp/torch_internals_caller.h"

namespace shoal::fsdp {

// A tensor that a call was given.
struct TensorRef {
  int call = -1;               // the call that made it; -1: it came from outside
  int output = 0;              // which of that call's results; outside: at the disposal of whoever records
  at::Tensor outside;          // undefined where a call made it, or where none was given
  bool requires_grad = false;  // at the time of the call

  bool made() const { return call >= 0; }
  bool is_none() const { return call < 0 && !outside.defined(); }
};

// One call of an operator with everything that it depends on: its arguments and the caller's state (grad mode,
// autocast). Lists are copied. A generator is kept as it was then, so that each play() draws the same numbers; the
// default generators alone are passed on as they are, since their state belongs to the whole program.
class RecordedCall {
 public:
  using RefOf = c10::function_ref<TensorRef(const at::Tensor&)>;
  using TensorOf = c10::function_ref<at::Tensor(const TensorRef&)>;

  // `arguments`: of `op`, before it runs. `ref_of` is asked for each defined tensor among them, in order.
  RecordedCall(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, RefOf ref_of);

  const c10::OperatorHandle& op() const { return op_; }
  std::string name() const;  // "aten::add_.Tensor"
  // All tensors among the arguments, those of lists one by one; argument i has those in [first, first + count).
  const std::vector<TensorRef>& refs() const { return refs_; }
  std::span<const TensorRef> refs_of(std::size_t argument) const;

  // Calls the operator with the tensors that `tensor_of` gives for refs(), as the caller did, and returns what it
  // gave. Whether the call is intercepted depends on the thread that plays.
  std::vector<at::Tensor> play(TensorOf tensor_of) const;

 private:
  enum class Kind : std::uint8_t { plain, tensor, tensors, optional_tensors };
  struct Argument {
    Kind kind = Kind::plain;
    std::uint32_t first = 0, count = 0;  // in refs_
    c10::IValue value;                   // plain
  };
  void capture(const c10::IValue& value, RefOf ref_of);
  void add(const at::Tensor& tensor, RefOf ref_of);
  c10::IValue value_of(const Argument& argument, TensorOf tensor_of) const;

  c10::OperatorHandle op_;
  torch_internals::CallerState caller_;
  std::vector<Argument> arguments_;
  std::vector<TensorRef> refs_;
};

// The results of an operator as they lie on the stack, tensors of lists one by one; undefined for what is no tensor.
std::vector<at::Tensor> tensors_among(std::span<const c10::IValue> results);

// Calls in the order in which they were made, and which of them made which tensor. Owns no tensor but those from
// outside; a result whose tensor is gone is forgotten. For one thread.
class OperatorTape {
 public:
  // Appends a call that is about to run. Tensors that no call of this tape made come from `outside`.
  int append(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, RecordedCall::RefOf outside);
  // `tensors`: the results of `call`, as of tensors_among(). An operator that works in place gives its argument anew,
  // which from then on is the result of that call.
  void made(int call, std::span<const at::Tensor> tensors);

  // The call that made `tensor`, or wrote it last; none where it came from outside.
  std::optional<TensorRef> find(const at::Tensor& tensor) const;

  const std::vector<RecordedCall>& calls() const { return calls_; }
  // No more tensors will be looked up: forgets which call made which.
  void close() { made_.clear(); }

 private:
  // A weak reference keeps the address from being given to another tensor.
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Result {
    Weak tensor;
    int call, output;
  };
  std::vector<RecordedCall> calls_;
  std::unordered_map<const c10::TensorImpl*, Result> made_;
};

}  // namespace shoal::fsdp
