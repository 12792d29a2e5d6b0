// What a training loop works on. All of it is the caller's and outlives the loop.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "comm/process_group.h"
#include "data/dataset.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "models/registry.h"
#include "train/rate_facts.h"

namespace shoal::train {

struct TrainParts {
  comm::ProcessGroup& world;  // all ranks, host memory
  models::Model& model;
  fsdp::FullyShardedModule& sharded;  // model.module()
  fsdp::ShardedOptimizer& optimizer;
  const data::Dataset& train_data;
  const data::Dataset* test_data;                  // null: no validation
  at::Device device = at::kCPU;                    // of the model; batches are copied to it
  std::optional<at::ScalarType> input_dtype = {};  // what floating inputs are cast to; unset: as the data have them
  models::Metric metric = models::Metric::accuracy;
  Trace* trace = nullptr;  // null: steps are not split into their parts, and nothing is recorded
  RateFacts rates = {};
};

}  // namespace shoal::train
