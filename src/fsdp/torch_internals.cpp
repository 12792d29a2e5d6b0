#include "fsdp/torch_internals.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <utility>

#include "core/check.h"
#include "fsdp/current_stream.h"

namespace shoal::fsdp::torch_internals {
namespace {

// StorageImpl can be told to throw when its memory is asked for, but not to stop throwing. An explicit instantiation
// may name private members (C++20 [temp.spec.general]), which gives us the flag.
template <bool c10::StorageImpl::*kMember>
struct GiveThrowFlag {
  friend bool& throw_flag(c10::StorageImpl& storage) { return storage.*kMember; }
};
bool& throw_flag(c10::StorageImpl& storage);
template struct GiveThrowFlag<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

// The mark of a tagged storage is its deleter, the context beside it the StorageUser: one load and one compare tell a
// tagged storage from any other, without a map or a lock.
c10::DataPtr tagged(void* memory, StorageUser* user, c10::Device device) {
  return {memory, static_cast<ParameterOwner*>(user), &lent_by_owner, device};
}

StorageUser* user_of(const c10::TensorImpl* tensor) {
  if (!tensor->has_storage()) return nullptr;
  c10::StorageImpl* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  if (!storage) return nullptr;
  const c10::DataPtr& memory = storage->_mutable_data_ptr_no_checks();
  return static_cast<StorageUser*>(memory.cast_context<ParameterOwner>(&lent_by_owner));
}

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// ---- The interceptor: a boxed fallback on a dispatch key that nothing else uses and that no tensor carries.

constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;
const c10::DispatchKeySet kKeySet{kKey};
const c10::DispatchKeySet kBelow{c10::DispatchKeySet::FULL_AFTER, kKey};

std::atomic<std::int64_t> g_operators{0};

// The tagged storages among an operator's arguments, announced owner by owner. Operators with more than kMost of them
// (a foreach over all parameters) are announced in several parts.
class Users {
 public:
  void add(StorageUser* user) {
    if (!user || (count_ > 0 && users_[count_ - 1] == user)) return;
    if (count_ == kMost || (count_ > 0 && &users_[0]->owner() != &user->owner())) announce();
    users_[count_++] = user;
  }
  void announce() {
    if (count_ > 0) users_[0]->owner().before_operator({users_.data(), count_});
    count_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 64;
  std::array<StorageUser*, kMost> users_;
  std::size_t count_ = 0;
};

void collect(const c10::IValue& value, Users& users) {
  if (value.isTensor()) {
    users.add(user_of(value.unsafeToTensorImpl()));
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) users.add(user_of(t.unsafeGetTensorImpl()));
  } else if (value.isList()) {  // of optional tensors
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) collect(element, users);
      if (!element.isTensor() && !element.isNone()) break;
    }
  }
}

thread_local OperatorListener* g_listener = nullptr;

}  // namespace

// Listeners are a forward pass's: in backward the autograd engine runs on the caller's thread too.
struct Interceptor {
  static void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
    OperatorCall call(op, keys.raw_repr(), stack);
    if (g_listener != nullptr && backward_pass() < 0) {
      g_listener->call(call);
    } else {
      call.run();
    }
  }
};

namespace {

void before_any_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  g_operators.fetch_add(1, std::memory_order_relaxed);
  Users users;
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) collect(argument, users);
  users.announce();
  // What the operator calls in its turn works on the same tensors and needs no announcement.
  const c10::impl::ExcludeDispatchKeyGuard inside(kKeySet);
  Interceptor::run(op, keys & kBelow, *stack);
}

}  // namespace

void OperatorCall::run() { op_->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys_), stack_); }

ListenScope::ListenScope(OperatorListener& listener) : outer_(std::exchange(g_listener, &listener)) {}
ListenScope::~ListenScope() { g_listener = outer_; }

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&before_any_operator>());
}

void* current_stream(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return current_stream_of(device).native_handle();
}

const void* storage_identity(const at::Tensor& tensor) { return tensor.has_storage() ? &storage_of(tensor) : nullptr; }

StorageUser* storage_user(const at::Tensor& tensor) { return user_of(tensor.unsafeGetTensorImpl()); }

std::int64_t intercepted_operators() { return g_operators; }

StorageUser::StorageUser(StorageOwner& owner, std::int64_t numel, at::ScalarType dtype, at::Device device,
                         std::string unavailable)
    : owner_(&owner) {
  const std::size_t bytes = static_cast<std::size_t>(numel) * c10::elementSize(dtype);
  // set_() of the meta device sets the storage's size, which is this one, and asks whether it may.
  c10::Allocator* const allocator = device.is_meta() ? c10::GetAllocator(at::kMeta) : nullptr;
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, tagged(nullptr, this, device), allocator,
                       /*resizable=*/allocator != nullptr);
  storage.unsafeGetStorageImpl()->get_extra_meta().custom_data_ptr_error_msg_ = std::move(unavailable);
  flat_ = at::empty({0}, at::TensorOptions(device).dtype(dtype));
  flat_.set_(storage, 0, {numel}, {1});
  throw_flag(storage_of(flat_)) = true;
  take_memory();
}

StorageUser::~StorageUser() {
  // Tensors that outlive the engine keep the storage: they must not lead to a dead user.
  c10::StorageImpl& storage = storage_of(flat_);
  storage.set_data_ptr_noswap({nullptr, storage.device()});
}

void StorageUser::lend_memory(void* memory) {
  c10::StorageImpl& storage = storage_of(flat_);
  throw_flag(storage) = false;
  storage.set_data_ptr_noswap(tagged(memory, this, storage.device()));
  memory_ = memory;
}

void StorageUser::take_memory() {
  c10::StorageImpl& storage = storage_of(flat_);
  throw_flag(storage) = true;
  storage.set_data_ptr_noswap(tagged(nullptr, this, storage.device()));
  memory_ = nullptr;
}

struct InterceptScope::Guard {
  c10::impl::IncludeDispatchKeyGuard include{kKeySet};
};
InterceptScope::InterceptScope() : guard_(std::make_unique<Guard>()) {}
InterceptScope::~InterceptScope() = default;

struct NoInterceptScope::Guard {
  c10::impl::ExcludeDispatchKeyGuard exclude{kKeySet};
};
NoInterceptScope::NoInterceptScope() : guard_(std::make_unique<Guard>()) {}
NoInterceptScope::~NoInterceptScope() = default;

std::shared_ptr<void> on_gradient(const at::Tensor& parameter, std::function<void()> done) {
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  using torch::autograd::variable_list;
  accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [done = std::move(done)](const variable_list& outputs, const variable_list&) {
        done();
        return outputs;
      }));
  return accumulator;
}

int backward_pass() { return torch::autograd::get_current_graph_task_id(); }

void at_end_of_backward(std::function<void()> callback) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}

namespace {

constexpr std::array<std::pair<at::ScalarType, DType>, 10> kTypes{{{at::kDouble, DType::float64},
                                                                   {at::kFloat, DType::float32},
                                                                   {at::kHalf, DType::float16},
                                                                   {at::kBFloat16, DType::bfloat16},
                                                                   {at::kLong, DType::int64},
                                                                   {at::kInt, DType::int32},
                                                                   {at::kShort, DType::int16},
                                                                   {at::kChar, DType::int8},
                                                                   {at::kByte, DType::uint8},
                                                                   {at::kBool, DType::boolean}}};

}  // namespace

DType dtype_of(at::ScalarType type) {
  for (const auto& [torch_type, dtype] : kTypes)
    if (torch_type == type) return dtype;
  throw OptionError("the model holds a tensor of type {}, which Shoal cannot shard", c10::toString(type));
}

at::ScalarType scalar_type_of(DType dtype) {
  for (const auto& [torch_type, ours] : kTypes)
    if (ours == dtype) return torch_type;
  throw InternalError("no LibTorch type for {}", name_of(dtype));
}

}  // namespace shoal::fsdp::torch_internals
