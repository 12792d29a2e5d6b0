// A flat gradient on its way through the shard group: it is summed over the ranks, and each keeps its shard of the sum.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "comm/device_mesh.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/mixed_precision.h"
#include "shard/shard_layout.h"

namespace shoal::fsdp {

// to[i] = the sum over ranks of rows[rank * n + i], with `add` on top of what `to` holds; n: elements of `to`. Queued
// on the current stream.
void sum_over_ranks(const at::Tensor& rows, const at::Tensor& to, bool add);

// A gradient in the type that it is summed in goes by reduce-scatter. One in a narrower type (FlatDtypes::sent()) is
// exchanged, and what came is added up here: the digits of a reduce-scatter in the wider type for half its bytes. Sums
// of fixed order are always taken here, in the tree of local_reduce().
class GradientExchange {
 public:
  // All outlive this. `received`: the pool for what comes from the ranks; `shards`: for results, on the same device.
  GradientExchange(const ShardLayout& layout, const FlatDtypes& dtypes, comm::ProcessGroup& group, BufferPool& received,
                   BufferPool& shards, bool fixed_order);

  bool adds_up_here(at::ScalarType type) const { return fsdp::adds_up_here(dtypes_, type, fixed_order_); }
  bool under_way() const { return work_ != nullptr; }

  // Collective over the group. `whole`: layout.padded_numel() elements of dtypes.reduced or dtypes.sent(), a buffer of
  // `pool`, that is taken over. finish(), add_to() or cancel() must follow.
  void start(at::Tensor whole, BufferPool& pool);
  // This rank's shard of the sum, in dtypes.reduced.
  at::Tensor finish();
  // Adds it to `sum`, which is of that type.
  void add_to(const at::Tensor& sum);
  void cancel();

 private:
  at::Tensor arrive();

  const ShardLayout* layout_;
  FlatDtypes dtypes_;
  comm::ProcessGroup* group_;
  BufferPool* received_pool_;
  BufferPool* shard_pool_;
  bool fixed_order_;
  std::unique_ptr<comm::Work> work_;
  at::Tensor whole_, received_;
  BufferPool* whole_pool_ = nullptr;
};

}  // namespace shoal::fsdp
