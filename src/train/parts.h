// What a training loop works on. All of it is the caller's and outlives the loop.
#pragma once

#include <c10/core/Device.h>

#include "comm/process_group.h"
#include "data/dataset.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "models/model.h"

namespace shoal::train {

struct TrainParts {
  comm::ProcessGroup& world;  // all ranks, host memory
  models::Model& model;
  fsdp::FullyShardedModule& sharded;  // model.module()
  fsdp::ShardedOptimizer& optimizer;
  const data::Dataset& train_data;
  const data::Dataset& test_data;
  at::Device device = at::kCPU;  // of the model; batches are copied to it
};

}  // namespace shoal::train
