#include "fsdp/flat_gradient.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

using torch_internals::dtype_of;

FlatGradient::FlatGradient(const ShardLayout& layout, const FlatDtypes& dtypes, comm::DeviceMesh& mesh,
                           BufferPool& whole_pool, BufferPool& shard_pool, Options options)
    : layout_(&layout),
      dtypes_(dtypes),
      mesh_(&mesh),
      whole_pool_(&whole_pool),
      shard_pool_(&shard_pool),
      options_(options),
      arrived_(layout.tensors(), 0),
      held_(layout.tensors(), 0),
      sum_(shard_pool, dtypes.masters, options.deterministic) {}

void FlatGradient::expect() {
  std::fill(arrived_.begin(), arrived_.end(), 0);
  missing_ = arrived_.size();
}

void FlatGradient::make_whole() {
  if (!whole_.defined()) whole_ = whole_pool_->acquire(layout_->padded_numel(), dtypes_.reduced);
}

void FlatGradient::collect(std::size_t index, const at::Tensor& gradient) {
  SHOAL_ASSERT(!arrived_[index]);  // an accumulator fires once a backward pass
  const at::NoGradGuard no_grad;
  make_whole();
  const Range place = layout_->tensor(index);
  const at::Tensor kept = whole_.narrow(0, place.begin, place.count).view(gradient.sizes());
  if (held_[index])
    kept.add_(gradient);
  else
    kept.copy_(gradient);
  held_[index] = arrived_[index] = 1;
  --missing_;
}

void FlatGradient::start_reduce() {
  const at::NoGradGuard no_grad;
  make_whole();
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (!held_[i]) whole_.narrow(0, layout_->tensor(i).begin, layout_->tensor(i).count).zero_();
  std::fill(held_.begin(), held_.end(), 0);
  missing_ = 0;
  whole_.narrow(0, layout_->numel(), layout_->padded_numel() - layout_->numel()).zero_();
  // A sum with more terms of zero must not turn -0 into +0: there is only +0.
  if (options_.deterministic) whole_.add_(0.0);
  if (!options_.scatters) {
    incoming_ = std::exchange(whole_, {});
    return;
  }
  incoming_ = whole_pool_->acquire(layout_->shard_numel(), dtypes_.reduced);
  reducing_ = mesh_->reduce().reduce_scatter(whole_.data_ptr(), incoming_.data_ptr(), layout_->shard_numel(),
                                             dtype_of(dtypes_.reduced), comm::ReduceOp::sum);
}

void FlatGradient::finish_reduce(bool sum_replicas) {
  if (reducing_) {
    reducing_->wait();
    reducing_.reset();
    whole_pool_->release(std::exchange(whole_, {}));
  }
  // Once on the host a shard can no longer be sent to the device's group.
  const bool at_once = sum_replicas || options_.deterministic || shard_pool_ != whole_pool_;
  accumulate(std::exchange(incoming_, {}), at_once && mesh_->replicate_size() > 1);
}

void FlatGradient::all_reduce(const at::Tensor& shard) {
  mesh_->replicate()
      .all_reduce(shard.data_ptr(), shard.numel(), dtype_of(shard.scalar_type()), comm::ReduceOp::sum)
      ->wait();
}

void FlatGradient::accumulate(at::Tensor shard, bool sum_replicas) {
  const at::NoGradGuard no_grad;
  settle();
  if (shard.scalar_type() != dtypes_.masters && sum_replicas) {
    at::Tensor exact = whole_pool_->acquire(shard.numel(), dtypes_.masters);
    exact.copy_(shard);
    whole_pool_->release(std::exchange(shard, std::move(exact)));
  }
  const bool first = sum_.empty(), one_replica = mesh_->replicate_size() == 1;
  SHOAL_CHECK(one_replica || first || sum_replicas || !replicas_summed_, InternalError,
              "run() was called between grad_norm() and the optimizer's step, or set_requires_all_reduce(false) within "
              "a step: the replicas' sum would be counted twice");
  const bool alone = sum_replicas && (first || replicas_summed_);  // what came before is summed already
  if (alone) all_reduce(shard);
  keep(std::move(shard));
  replicas_summed_ = one_replica || alone;
  if (sum_replicas) sum_over_replicas();
}

// Adds `shard` up, on the host after a copy that nobody waits for yet.
void FlatGradient::keep(at::Tensor shard) {
  if (shard_pool_ == whole_pool_) {
    sum_.add(std::move(shard));
    return;
  }
  arriving_ = shard_pool_->acquire(shard.numel(), shard.scalar_type());
  arriving_.copy_(shard, /*non_blocking=*/true);
  arrival_.record(shard.device());
  // Whoever gets this buffer next writes to it on the same stream, or on one that waits for it: after the copy.
  whole_pool_->release(std::move(shard));
}

// Adds what was copied to the host.
void FlatGradient::settle() {
  if (!arriving_.defined()) return;
  arrival_.wait();
  sum_.add(std::exchange(arriving_, {}));
}

const at::Tensor& FlatGradient::value() {
  SHOAL_CHECK(!whole_.defined(), OptionError,
              "gradients of run()s without gradient sync were not reduced: call set_requires_gradient_sync(true) "
              "before the last run() of a step");
  settle();
  sum_over_replicas();
  return sum_.value();
}

void FlatGradient::sum_over_replicas() {
  if (!replicas_summed_) all_reduce(sum_.value());
  replicas_summed_ = true;
}

void FlatGradient::drop() {
  if (reducing_) reducing_->wait();
  reducing_.reset();
  arrival_.wait();
  for (at::Tensor* buffer : {&whole_, &incoming_})
    if (buffer->defined()) whole_pool_->release(std::exchange(*buffer, {}));
  if (arriving_.defined()) shard_pool_->release(std::exchange(arriving_, {}));
  sum_.clear();
  std::fill(held_.begin(), held_.end(), 0);
  replicas_summed_ = true;
}

std::int64_t FlatGradient::whole_bytes() const {
  return layout_->padded_numel() * static_cast<std::int64_t>(c10::elementSize(dtypes_.reduced));
}

}  // namespace shoal::fsdp
