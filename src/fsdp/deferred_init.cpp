#include "fsdp/deferred_init.h"

#include "core/check.h"
#include "fsdp/deferred_recorder.h"

namespace shoal::fsdp {

DeferredInit::DeferredInit() : recorder_(std::make_unique<DeferredRecorder>()) {}
DeferredInit::~DeferredInit() = default;

void DeferredInit::record(const std::function<void()>& build) {
  const auto turn = default_generator_turn();
  const torch_internals::ListenScope listen(*recorder_);
  build();
}

bool DeferredInit::is_deferred(const at::Tensor& tensor) const { return recorder_->is_deferred(tensor); }

at::Tensor DeferredInit::values(const at::Tensor& tensor) const {
  SHOAL_CHECK(is_deferred(tensor), InternalError, "DeferredInit::values() of a tensor that has its values");
  const torch_internals::NoInterceptScope quiet;
  return recorder_->values(tensor);
}

void DeferredInit::fill_rest() const {
  const torch_internals::NoInterceptScope quiet;
  recorder_->fill_living();
}

std::uint64_t DeferredInit::fingerprint() const { return recorder_->hash(); }

}  // namespace shoal::fsdp
