#include "fsdp/gradient_exchange.h"

#include <utility>

#include "core/check.h"
#include "fsdp/torch_internals.h"
#include "kernels/sum_ranks.h"

namespace shoal::fsdp {

using torch_internals::dtype_of;

void sum_over_ranks(const at::Tensor& rows, const at::Tensor& to, bool add) {
  if (to.numel() == 0) return;
  const int ranks = static_cast<int>(rows.numel() / to.numel());
  const kernels::RankRows from{rows.const_data_ptr(), dtype_of(rows.scalar_type()), to.numel(), ranks};
  const kernels::RankSum sum{to.data_ptr(), dtype_of(to.scalar_type()), add};
  if (to.is_cpu())
    kernels::sum_ranks(from, sum);
  else
    kernels::sum_ranks_on_device(from, sum, torch_internals::current_stream(to.device()));
}

GradientExchange::GradientExchange(const ShardLayout& layout, const FlatDtypes& dtypes, comm::ProcessGroup& group,
                                   BufferPool& received, BufferPool& shards, bool fixed_order)
    : layout_(&layout),
      dtypes_(dtypes),
      group_(&group),
      received_pool_(&received),
      shard_pool_(&shards),
      fixed_order_(fixed_order) {}

void GradientExchange::start(at::Tensor whole, BufferPool& pool) {
  SHOAL_ASSERT(!under_way());
  const at::ScalarType type = whole.scalar_type();
  const std::int64_t numel = layout_->shard_numel();
  whole_ = std::move(whole);
  whole_pool_ = &pool;
  if (adds_up_here(type)) {
    received_ = received_pool_->acquire(layout_->padded_numel(), type, layout_);
    work_ = group_->all_to_all(whole_.data_ptr(), received_.data_ptr(), numel, dtype_of(type));
  } else {
    received_ = shard_pool_->acquire(numel, type);
    work_ = group_->reduce_scatter(whole_.data_ptr(), received_.data_ptr(), numel, dtype_of(type), comm::ReduceOp::sum);
  }
}

// What was received. The gradient that was sent is gone.
at::Tensor GradientExchange::arrive() {
  SHOAL_ASSERT(under_way());
  work_->wait();
  work_.reset();
  whole_pool_->release(std::exchange(whole_, {}));
  return std::exchange(received_, {});
}

at::Tensor GradientExchange::finish() {
  at::Tensor received = arrive();
  if (!adds_up_here(received.scalar_type())) return received;
  at::Tensor shard = shard_pool_->acquire(layout_->shard_numel(), dtypes_.reduced);
  sum_over_ranks(received, shard, false);
  received_pool_->release(std::move(received));
  return shard;
}

void GradientExchange::add_to(const at::Tensor& sum) {
  at::Tensor received = arrive();
  if (adds_up_here(received.scalar_type())) {
    sum_over_ranks(received, sum, true);
    received_pool_->release(std::move(received));
  } else {
    at::Tensor(sum).add_(received);
    shard_pool_->release(std::move(received));
  }
}

void GradientExchange::cancel() {
  if (!under_way()) return;
  at::Tensor received = arrive();
  (adds_up_here(received.scalar_type()) ? received_pool_ : shard_pool_)->release(std::move(received));
}

}  // namespace shoal::fsdp
