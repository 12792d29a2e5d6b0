// What stands between the options of shoal train and its loop: each function makes one of the loop's parts. All are
// collective over `world`; what is wrong with the user's input is an AgreedError.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "launch/mpi_session.h"
#include "train/batch_plan.h"
#include "train/job_run.h"
#include "train/options.h"
#include "train/rate_facts.h"
#include "train/warm_up.h"

namespace shoal::apps {

// The same on every rank; nothing where --help was given.
std::optional<train::TrainOptions> agreed_options(comm::ProcessGroup& world, const std::vector<std::string>& arguments);

// What the ranks must know of each other before the options are complete: batches and the model's shape. Sets threads
// and determinism too.
train::BatchPlan settle(comm::ProcessGroup& world, const launch::Placement& placement, const models::ModelEntry& entry,
                        train::TrainOptions& options);

// The group for tensors of `device`; null where that is host memory.
std::unique_ptr<comm::ProcessGroup> make_device_group(comm::ProcessGroup& world, at::Device device);

std::unique_ptr<comm::DeviceMesh> make_mesh(comm::ProcessGroup& world, comm::ProcessGroup& device_world,
                                            const launch::Placement& placement, const train::ShardingOptions& options);

// The model and, unless it was built whole, the record of how to make its weights.
struct BuiltModel {
  std::unique_ptr<models::Model> model;
  std::unique_ptr<fsdp::DeferredInit> deferred;
};
BuiltModel build_model(comm::ProcessGroup& world, const models::ModelEntry& entry, const train::TrainOptions& options,
                       at::Device device);

// `trace` may be null.
std::unique_ptr<fsdp::FullyShardedModule> shard(const BuiltModel& built, comm::DeviceMesh& mesh, at::Device device,
                                                const train::TrainOptions& options, Trace* trace);

std::unique_ptr<fsdp::ShardedOptimizer> make_optimizer(fsdp::FullyShardedModule& sharded,
                                                       const train::OptimizerSettings& settings);

// What a model of these options calls of a GPU's libraries.
train::WarmUpPlan warm_up_plan(const train::TrainOptions& options);

// Null where there are no test data. Every rank reads its own copy, and all copies must be the same.
std::unique_ptr<data::Dataset> open_data(comm::ProcessGroup& world, const models::ModelEntry& entry,
                                         const train::TrainOptions& options, data::Split split);

// Null where none are written.
std::unique_ptr<checkpoint::Checkpointer> open_checkpoints(comm::ProcessGroup& world,
                                                           const train::TrainOptions& options, at::Device device,
                                                           const std::optional<checkpoint::Fence>& fence);

// For rates and MFU, of a model with so many parameters.
train::RateFacts rate_facts(const train::TrainOptions& options, std::int64_t parameters, at::Device device);

// What Slurm says of the job, as far as it matters to a run.
train::JobFacts job_facts();

// The weights of --init-from.
void load_initial_weights(comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded,
                          const train::TrainOptions& options);

}  // namespace shoal::apps
