#include "fsdp/flat_gradient.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace shoal::fsdp {

FlatGradient::FlatGradient(const ShardLayout& layout, const FlatDtypes& dtypes, comm::DeviceMesh& mesh,
                           const GradientPools& pools, Options options)
    : layout_(&layout),
      dtypes_(dtypes),
      replicas_(mesh.replicate_size()),
      pools_(pools),
      options_(options),
      arrived_(layout.tensors(), 0),
      held_(layout.tensors(), 0),
      asked_(layout.tensors(), 0),
      replica_sum_(mesh.replicate(), pools.device, options.deterministic),
      sum_(pools.masters, dtypes.masters, options.deterministic) {
  if (options.scatters)
    exchange_.emplace(layout, dtypes, mesh.reduce(), pools.received, pools.device, options.deterministic);
}

void FlatGradient::expect() {
  std::fill(arrived_.begin(), arrived_.end(), 0);
  std::fill(asked_.begin(), asked_.end(), 0);
  missing_ = arrived_.size();
}

BufferPool& FlatGradient::whole_pool() { return plain_ ? pools_.device : pools_.sent; }

// One backward pass brings one gradient a tensor, of the parameters' type; only sums of several need more digits.
void FlatGradient::make_whole(bool plain) {
  if (whole_.defined()) return;
  plain_ = plain || is_a_sum();
  whole_ = whole_pool().acquire(layout_->padded_numel(), is_a_sum() ? dtypes_.reduced : dtypes_.sent(), layout_);
}

void* FlatGradient::place_for(std::int64_t begin, std::int64_t bytes) {
  constexpr std::uintptr_t kVector = 16;  // what kernels store at once
  if (missing_ == 0 || is_a_sum() || dtypes_.sent() != dtypes_.params) return nullptr;
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtypes_.params));
  for (std::size_t i = 0; i < layout_->tensors(); ++i) {
    const Range place = layout_->tensor(i);
    if (place.begin * size != begin || place.count * size != bytes) continue;
    if (arrived_[i] || held_[i] || asked_[i]) return nullptr;
    const at::NoGradGuard no_grad;
    make_whole(/*plain=*/false);
    std::byte* const there = static_cast<std::byte*>(whole_.data_ptr()) + begin;
    if (reinterpret_cast<std::uintptr_t>(there) % kVector != 0) return nullptr;
    asked_[i] = 1;
    return there;
  }
  return nullptr;
}

void FlatGradient::collect(std::size_t index, const at::Tensor& gradient) {
  SHOAL_ASSERT(!arrived_[index]);  // an accumulator fires once a backward pass
  SHOAL_CHECK(gradient.scalar_type() == dtypes_.params, InternalError, "a gradient of {} for parameters of {}",
              c10::toString(gradient.scalar_type()), c10::toString(dtypes_.params));
  const at::NoGradGuard no_grad;
  make_whole(/*plain=*/false);
  const Range place = layout_->tensor(index);
  const at::Tensor kept = whole_.narrow(0, place.begin, place.count).view(gradient.sizes());
  if (held_[index]) {
    SHOAL_ASSERT(whole_.scalar_type() == dtypes_.reduced);
    kept.add_(gradient);
  } else if (kept.numel() > 0 && gradient.const_data_ptr() == kept.const_data_ptr()) {
    SHOAL_ASSERT(asked_[index] && gradient.is_contiguous());
  } else {
    kept.copy_(gradient);
  }
  held_[index] = arrived_[index] = 1;
  --missing_;
}

std::int64_t FlatGradient::place() const { return whole_.defined() && !plain_ ? pools_.sent.place(whole_) : -1; }

void FlatGradient::leave_place() {
  const at::NoGradGuard no_grad;
  make_whole(/*plain=*/true);
  if (plain_) return;
  at::Tensor plain = pools_.device.acquire(whole_.numel(), whole_.scalar_type());
  plain.copy_(whole_);
  pools_.sent.release(std::exchange(whole_, std::move(plain)));
  plain_ = true;
}

void FlatGradient::start_reduce() {
  const at::NoGradGuard no_grad;
  make_whole(/*plain=*/false);
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (!held_[i]) whole_.narrow(0, layout_->tensor(i).begin, layout_->tensor(i).count).zero_();
  std::fill(held_.begin(), held_.end(), 0);
  missing_ = 0;
  keeps_whole_ = false;
  whole_.narrow(0, layout_->numel(), layout_->padded_numel() - layout_->numel()).zero_();
  // A sum with more terms of zero must not turn -0 into +0: there is only +0.
  if (options_.deterministic) whole_.add_(0.0);
  if (exchange_) exchange_->start(std::exchange(whole_, {}), whole_pool());
}

void FlatGradient::finish_reduce(bool sum_replicas) {
  const at::NoGradGuard no_grad;
  settle();
  // Once on the host a shard can no longer be sent to the device's group.
  const bool at_once = replicas_ > 1 && (sum_replicas || options_.deterministic || offloaded());
  SHOAL_CHECK(replicas_ == 1 || sum_.empty() || at_once || !replicas_summed_, InternalError,
              "run() was called between grad_norm() and the optimizer's step, or set_requires_all_reduce(false) within "
              "a step: the replicas' sum would be counted twice");
  if (at_once && (sum_.empty() || replicas_summed_)) {  // what came before is summed already
    begin_replica_sum_of(reduced_shard());
    return;
  }
  const at::Tensor running = sum_.running();
  if (exchange_ && !offloaded() && running.defined() && dtypes_.reduced == dtypes_.masters)
    exchange_->add_to(running);
  else
    keep(reduced_shard());
  replicas_summed_ = replicas_ == 1;
  if (at_once) start_replica_sum();
}

at::Tensor FlatGradient::reduced_shard() { return exchange_ ? exchange_->finish() : std::exchange(whole_, {}); }

// In the masters' type: more replicas must not cost digits.
void FlatGradient::begin_replica_sum_of(at::Tensor shard) {
  if (shard.scalar_type() != dtypes_.masters) {
    at::Tensor exact = pools_.device.acquire(shard.numel(), dtypes_.masters);
    exact.copy_(shard);
    pools_.device.release(std::exchange(shard, std::move(exact)));
  }
  summing_ = std::move(shard);
  replica_sum_.start(summing_);
  replicas_summed_ = true;
}

void FlatGradient::finish_replica_sum() {
  const at::NoGradGuard no_grad;
  replica_sum_.finish();
  if (summing_.defined()) keep(std::exchange(summing_, {}));
}

// Adds `shard` up, on the host after a copy that nobody waits for yet.
void FlatGradient::keep(at::Tensor shard) {
  if (!offloaded()) {
    sum_.add(std::move(shard));
    return;
  }
  squares_.clear();
  if (sum_.empty() && !options_.deterministic) squares_.start(shard);
  arriving_ = pools_.masters.acquire(shard.numel(), shard.scalar_type());
  pools_.copies->to_host(std::move(shard), pools_.device, arriving_, arrival_);
}

// Adds up what earlier reductions left on its way.
void FlatGradient::settle() {
  finish_replica_sum();
  if (!arriving_.defined()) return;
  arrival_.wait();
  sum_.add(std::exchange(arriving_, {}));
}

void FlatGradient::start_replica_sum() {
  if (replicas_summed_) return;
  replica_sum_.start(sum_.value());
  replicas_summed_ = true;
}

const at::Tensor& FlatGradient::value() {
  SHOAL_CHECK(!whole_.defined(), OptionError,
              "gradients of run()s without gradient sync were not reduced: call set_requires_gradient_sync(true) "
              "before the last run() of a step");
  start_replica_sum();
  settle();
  const at::Tensor& sum = sum_.value();
  SHOAL_ASSERT(!sum.defined() || sum.scalar_type() == dtypes_.masters);
  return sum;
}

void FlatGradient::drop() {
  if (exchange_) exchange_->cancel();
  replica_sum_.finish();
  arrival_.wait();
  if (whole_.defined()) whole_pool().release(std::exchange(whole_, {}));
  if (summing_.defined()) pools_.device.release(std::exchange(summing_, {}));
  if (arriving_.defined()) pools_.masters.release(std::exchange(arriving_, {}));
  sum_.clear();
  squares_.clear();
  std::fill(held_.begin(), held_.end(), 0);
  replicas_summed_ = true;
  keeps_whole_ = false;
}

std::int64_t FlatGradient::whole_bytes() const {
  return layout_->padded_numel() * static_cast<std::int64_t>(c10::elementSize(dtypes_.reduced));
}

}  // namespace shoal::fsdp
