// The one room that touches LibTorch below its public interface: storages, dispatch keys, gradient accumulators and
// the autograd engine's callbacks. When LibTorch changes, this file and its .cpp are what has to be mended.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/parameter_owner.h"
#include "shard/dtype.h"

namespace c10 {
class OperatorHandle;
struct IValue;
}  // namespace c10

namespace shoal::fsdp::torch_internals {

// Who is told that an operator is about to read or write some of its storages.
class StorageUser;
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  // `users`: those of this owner among the operator's tensor arguments, without immediate repetitions. After the call
  // their memory must be there. Runs on the thread that calls the operator, which in backward may be autograd's.
  virtual void before_operator(std::span<StorageUser* const> users) = 0;
  // Before a gradient of one of its users is made, in a backward pass that may not be known yet; on its thread.
  virtual void before_gradient() {}
};

// A tagged storage: a tensor's memory that comes and goes. Views made of `flat()` share it.
class StorageUser : public ParameterOwner {
 public:
  // A storage of `numel` elements without memory. `unavailable`: what LibTorch says in the exception when the tensor
  // is read while it has none.
  StorageUser(StorageOwner& owner, std::int64_t numel, at::ScalarType dtype, at::Device device,
              std::string unavailable);
  StorageUser(const StorageUser&) = delete;
  StorageUser& operator=(const StorageUser&) = delete;
  ~StorageUser() override;

  void* gradient_place(std::int64_t /*begin*/, std::int64_t /*bytes*/) override { return nullptr; }
  StorageOwner& owner() const { return *owner_; }
  const at::Tensor& flat() const { return flat_; }
  bool has_memory() const { return memory_ != nullptr; }
  // Lends memory for the whole of flat(); it must stay until take_memory().
  void lend_memory(void* memory);
  void take_memory();

 private:
  StorageOwner* owner_;
  at::Tensor flat_;
  void* memory_ = nullptr;
};

// While it lives, operators called on this thread, and in backward passes started from it, are announced to the
// owners of their storages.
class InterceptScope {
 public:
  InterceptScope();
  ~InterceptScope();
  InterceptScope(const InterceptScope&) = delete;
  InterceptScope& operator=(const InterceptScope&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

// While it lives, operators of this thread are not announced: for the engine's own arithmetic inside a callback.
class NoInterceptScope {
 public:
  NoInterceptScope();
  ~NoInterceptScope();
  NoInterceptScope(const NoInterceptScope&) = delete;
  NoInterceptScope& operator=(const NoInterceptScope&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

// One operator on its way through the interceptor.
class OperatorCall {
 public:
  const c10::OperatorHandle& op() const { return *op_; }
  // Before run(): ends in the operator's arguments. After it: ends in its results, in their place.
  std::vector<c10::IValue>& stack() const { return *stack_; }
  void run();

 private:
  friend struct Interceptor;
  OperatorCall(const c10::OperatorHandle& op, std::uint64_t keys, std::vector<c10::IValue>& stack)
      : op_(&op), keys_(keys), stack_(&stack) {}
  const c10::OperatorHandle* op_;
  std::uint64_t keys_;
  std::vector<c10::IValue>* stack_;
};

// Stands in for the operators of a thread. Owners of tagged storages have been told before; what call() does itself is
// not announced and not listened to.
class OperatorListener {
 public:
  virtual ~OperatorListener() = default;
  virtual void call(OperatorCall& call) = 0;  // runs it with call.run(), or leaves results of its own on the stack
};

// While it lives, `listener` hears this thread's operators (not those of backward, which run on autograd's behalf),
// also outside an InterceptScope. Scopes nest; the innermost alone hears.
class ListenScope {
 public:
  explicit ListenScope(OperatorListener& listener);
  ~ListenScope();
  ListenScope(const ListenScope&) = delete;
  ListenScope& operator=(const ListenScope&) = delete;

 private:
  InterceptScope intercept_;
  OperatorListener* outer_;
};

// The same for tensors that share memory; null for those without a storage.
const void* storage_identity(const at::Tensor& tensor);
StorageUser* storage_user(const at::Tensor& tensor);  // null where its storage is not tagged

// The cudaStream_t on which LibTorch queues this thread's work for `device`; null for the CPU.
void* current_stream(at::Device device);

// Operators announced so far in this process: what bench/ divides by.
std::int64_t intercepted_operators();

// Calls `done` each time a backward pass has put the whole gradient of leaf `parameter` into its .grad. The returned
// owner keeps the accumulator, and with it the hook, alive.
std::shared_ptr<void> on_gradient(const at::Tensor& parameter, std::function<void()> done);

// The backward pass that this thread works for; -1 outside of any.
int backward_pass();
// Runs `callback` at the end of the current backward pass; only inside one.
void at_end_of_backward(std::function<void()> callback);

DType dtype_of(at::ScalarType type);  // OptionError where Shoal has no such element type
at::ScalarType scalar_type_of(DType dtype);

}  // namespace shoal::fsdp::torch_internals
