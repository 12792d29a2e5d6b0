// How a thread calls operators: grad mode, autocast and the rest of LibTorch's thread-local state that decides what an
// operator does beside its arguments.
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>

namespace shoal::fsdp::torch_internals {

class CallerState {
 public:
  static CallerState current();
  bool grad_mode() const { return autograd_.get_grad_mode(); }

 private:
  friend class CallerScope;
  CallerState();
  std::uint64_t included_, excluded_;  // dispatch keys
  c10::AutogradState autograd_;
  c10::ScalarType autocast_cpu_, autocast_cuda_;
};

// While it lives, this thread calls operators as `state` tells; only whether they are intercepted stays as it is.
class CallerScope {
 public:
  explicit CallerScope(const CallerState& state);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  CallerState outer_;
};

}  // namespace shoal::fsdp::torch_internals
