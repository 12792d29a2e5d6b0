// A sharded module, and the calls of its group.
#pragma once

#include <memory>

#include "fsdp/counting_group.h"
#include "fsdp/micro_steps.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {

struct Watched {
  TrafficByCall traffic;
  std::unique_ptr<CountingGroup> counting;
  TestModel model;
  std::unique_ptr<comm::DeviceMesh> mesh;
  std::unique_ptr<fsdp::FullyShardedModule> sharded;
};

// Collective over `world`. The job's module, wrapping and options.
inline std::unique_ptr<Watched> watch(comm::ProcessGroup& world, const MicroJob& job, int shard_size,
                                      int regather_size = 0) {
  auto watched = std::make_unique<Watched>();
  watched->counting = std::make_unique<CountingGroup>(device_world(world), watched->traffic);
  watched->model = prepared(job);
  watched->mesh = std::make_unique<comm::DeviceMesh>(world, *watched->counting, shard_size, regather_size);
  watched->sharded =
      fsdp::fully_shard(watched->model.module, *watched->mesh, *fsdp::parse_wrap_policy(job.wrap), job.options);
  return watched;
}

}  // namespace shoal::testing
