#include "fsdp/replica_sum.h"

#include <utility>

#include "core/check.h"
#include "fsdp/gradient_exchange.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

using torch_internals::dtype_of;

void ReplicaSum::start(const at::Tensor& shard) {
  SHOAL_ASSERT(!under_way());
  shard_ = shard;
  const DType dtype = dtype_of(shard.scalar_type());
  if (!fixed_order_) {
    work_ = group_->all_reduce(shard.data_ptr(), shard.numel(), dtype, comm::ReduceOp::sum);
    return;
  }
  gathered_ = pool_->acquire(group_->size() * shard.numel(), shard.scalar_type());
  work_ = group_->all_gather(shard.data_ptr(), gathered_.data_ptr(), shard.numel(), dtype);
}

void ReplicaSum::finish() {
  if (!under_way()) return;
  work_->wait();
  work_.reset();
  const at::Tensor shard = std::exchange(shard_, {});
  if (!gathered_.defined()) return;
  sum_over_ranks(gathered_, shard, false);
  pool_->release(std::exchange(gathered_, {}));
}

}  // namespace shoal::fsdp
