#include "fsdp/torch_internals_caller.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace shoal::fsdp::torch_internals {
namespace {

// The key of the interceptor (torch_internals.cpp).
const std::uint64_t kIntercept = c10::DispatchKeySet(c10::DispatchKey::DeferredInit).raw_repr();

std::uint64_t without_interception(std::uint64_t keys) { return keys & ~kIntercept; }

void force(std::uint64_t included, std::uint64_t excluded) {
  c10::impl::PODLocalDispatchKeySet keys;
  keys.set_included(c10::DispatchKeySet(c10::DispatchKeySet::RAW, included));
  keys.set_excluded(c10::DispatchKeySet(c10::DispatchKeySet::RAW, excluded));
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

void set_autocast_dtypes(c10::ScalarType cpu, c10::ScalarType cuda) {
  at::autocast::set_autocast_dtype(c10::DeviceType::CPU, cpu);
  at::autocast::set_autocast_dtype(c10::DeviceType::CUDA, cuda);
}

}  // namespace

CallerState::CallerState()
    : autograd_(c10::AutogradState::get_tls_state()),
      autocast_cpu_(at::autocast::get_autocast_dtype(c10::DeviceType::CPU)),
      autocast_cuda_(at::autocast::get_autocast_dtype(c10::DeviceType::CUDA)) {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  included_ = keys.included_.raw_repr();
  excluded_ = keys.excluded_.raw_repr();
}

CallerState CallerState::current() { return {}; }

CallerScope::CallerScope(const CallerState& state) : outer_(CallerState::current()) {
  force(without_interception(state.included_) | (outer_.included_ & kIntercept),
        without_interception(state.excluded_) | (outer_.excluded_ & kIntercept));
  c10::AutogradState::set_tls_state(state.autograd_);
  set_autocast_dtypes(state.autocast_cpu_, state.autocast_cuda_);
}

CallerScope::~CallerScope() {
  force(outer_.included_, outer_.excluded_);
  c10::AutogradState::set_tls_state(outer_.autograd_);
  set_autocast_dtypes(outer_.autocast_cpu_, outer_.autocast_cuda_);
}

}  // namespace shoal::fsdp::torch_internals
