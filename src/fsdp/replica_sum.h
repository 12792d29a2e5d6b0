// The sum of a gradient's shard over the replicas, under way while the caller goes on.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "comm/process_group.h"
#include "fsdp/buffer_pool.h"

namespace shoal::fsdp {

class ReplicaSum {
 public:
  // `group`: the replicas, on the device of `pool`; both outlive this. With `fixed_order` every replica gets the
  // others' shards and adds them up in the tree of local_reduce(), at the cost of memory for all of them.
  ReplicaSum(comm::ProcessGroup& group, BufferPool& pool, bool fixed_order)
      : group_(&group), pool_(&pool), fixed_order_(fixed_order) {}

  bool under_way() const { return work_ != nullptr; }
  // Collective over the group. `shard`, of float32 or wider with a fixed order, becomes the sum; nobody may touch it
  // before finish().
  void start(const at::Tensor& shard);
  void finish();  // nothing where nothing is under way

 private:
  comm::ProcessGroup* group_;
  BufferPool* pool_;
  bool fixed_order_;
  std::unique_ptr<comm::Work> work_;
  at::Tensor shard_, gathered_;
};

}  // namespace shoal::fsdp
