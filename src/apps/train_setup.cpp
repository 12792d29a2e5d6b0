#include "apps/train_setup.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>

#include "apps/train_options.h"
#include "checkpoint/load_weights.h"
#include "comm/nccl_process_group.h"
#include "comm/rank_card.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/logging.h"
#include "launch/slurm_environment.h"
#include "optim/parameter_groups.h"
#include "train/agreement.h"
#include "train/data_request.h"
#include "train/device.h"
#include "train/random_seed.h"
#include "train/staging.h"
#include "train/thread_share.h"

extern char** environ;

namespace shoal::apps {
namespace {

using train::TrainOptions;

void set_threads(comm::ProcessGroup& world, const launch::Placement& placement, const train::RunOptions& options) {
  const int fair = train::fair_threads(world, placement.host);
  if (options.threads > 0) {
    at::set_num_threads(options.threads);
  } else if (options.deterministic) {
    at::set_num_threads(1);  // how a sum is split among threads is part of its result
  } else if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    at::set_num_threads(fair);
  }
}

void make_deterministic() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // read when cuBLAS is first used
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

// Small pictures go by the thousand; sequences as many as a micro-step trains.
std::int64_t default_test_batch(const train::BatchPlan& plan, const models::ModelEntry& entry) {
  return entry.shape.max_positions > 0 ? plan.micro_batch() : 1000;
}

}  // namespace

// The same on every rank: a launcher may give its environment to some nodes and not to others.
std::optional<TrainOptions> agreed_options(comm::ProcessGroup& world, const std::vector<std::string>& arguments) {
  std::optional<GivenOptions> given;
  const auto all = train::run_everywhere(world, [&] {
    given = parse_train_options(arguments, environ, world.size());
    std::string text;
    if (given)
      for (const auto& [name, value] : train::resolved(given->options)) text += fmt::format("--{} {}\n", name, value);
    return text;
  });
  train::run_everywhere(world, [&]() -> std::string {
    const std::string& mine = all[static_cast<std::size_t>(world.rank())];
    SHOAL_CHECK(mine == all[0], OptionError,
                "this rank has other options than rank 0; give them on the command line or in --config FILE, or let "
                "the launcher pass SHOAL_ variables on (mpirun -x, srun --export)");
    return "";
  });
  if (!given) return std::nullopt;
  log::set_quiet(given->options.run.quiet);
  if (!given->translated.empty()) log::info("{}", given->translated);
  if (!given->warning.empty() && world.rank() == 0) log::warning("{}", given->warning);
  return given->options;
}

// What the ranks must know of each other before the options are complete.
train::BatchPlan settle(comm::ProcessGroup& world, const launch::Placement& placement, const models::ModelEntry& entry,
                        TrainOptions& options) {
  world.set_timeout(std::chrono::milliseconds(static_cast<std::int64_t>(options.run.collective_timeout * 1000)));
  train::BatchPlan plan;
  train::run_everywhere(world, [&]() -> std::string {
    options.model.shape = models::complete(entry, options.model.shape);
    plan = train::plan_batches(options.batch, world.size(), entry.defaults.batch_size);
    return "";
  });
  options.batch = {plan.rank_batch(), plan.global_batch, plan.micro_steps};
  options.batch.deterministic = options.run.deterministic;
  if (options.data.test_batch_size == 0) options.data.test_batch_size = default_test_batch(plan, entry);
  set_threads(world, placement, options.run);
  if (options.run.deterministic) make_deterministic();
  return plan;
}

train::WarmUpPlan warm_up_plan(const TrainOptions& options) {
  const models::ModelOptions& shape = options.model.shape;
  train::WarmUpPlan plan;
  if (const auto dtype = train::fully_shard_options(options.sharding, false).mixed_precision.param_dtype)
    plan.dtype = *dtype;
  if (shape.heads == 0) return plan;
  plan.heads = shape.heads;
  plan.kv_heads = shape.kv_heads > 0 ? shape.kv_heads : shape.heads;
  plan.head_size = shape.hidden_size / shape.heads;
  const std::int64_t longest = options.data.sequence_length > 0 ? options.data.sequence_length : train::kDefaultLongest;
  plan.sequence_length = std::min(shape.max_positions, longest);  // what is wrong with it, is said when data are opened
  return plan;
}

// The group for tensors of `device`, where that is not host memory.
std::unique_ptr<comm::ProcessGroup> make_device_group(comm::ProcessGroup& world, at::Device device) {
  if (device.is_cpu()) return nullptr;
  const activity::During meeting(activity::Operation::rendezvous);
  try {
    return comm::make_nccl_group(world, device.index(), [device] { return fsdp::current_stream(device); });
  } catch (const comm::SharedGpuError& error) {
    throw train::AgreedError(error.exit_code(), error.what());
  }
}

std::unique_ptr<comm::DeviceMesh> make_mesh(comm::ProcessGroup& world, comm::ProcessGroup& device_world,
                                            const launch::Placement& placement, const train::ShardingOptions& options) {
  const int shard_size = fsdp::shard_group_size(fsdp::parse_strategy(options.strategy), world.size(),
                                                placement.local_size, options.shard_size);
  std::unique_ptr<comm::DeviceMesh> mesh;
  train::run_agreeing([&] {
    mesh = std::make_unique<comm::DeviceMesh>(world, device_world, shard_size, options.reshard_after_forward);
  });
  return mesh;
}

// The seed makes LibTorch's generators draw the same on every rank, where a constructor draws from them.
BuiltModel build_model(comm::ProcessGroup& world, const models::ModelEntry& entry, const TrainOptions& options,
                       at::Device device) {
  const auto seed = static_cast<std::uint64_t>(options.run.seed);
  BuiltModel built;
  train::run_everywhere(world, [&]() -> std::string {
    models::ModelOptions shape = options.model.shape;
    shape.seed = seed;
    at::manual_seed(train::model_seed(seed));
    if (options.model.deferred_init && options.model.script.empty()) {  // a script's weights are in its file
      built.deferred = std::make_unique<fsdp::DeferredInit>();
      built.deferred->record([&] { built.model = entry.make(shape); });
    } else {
      built.model = entry.make(shape);
      built.model->to_device(device);
    }
    return "";
  });
  return built;
}

std::unique_ptr<fsdp::FullyShardedModule> shard(const BuiltModel& built, comm::DeviceMesh& mesh, at::Device device,
                                                const TrainOptions& options, Trace* trace) {
  std::unique_ptr<fsdp::FullyShardedModule> sharded;
  fsdp::FullyShardOptions how = train::fully_shard_options(options.sharding, options.run.deterministic);
  how.device = device;
  how.trace = trace;
  how.deferred_init = built.deferred.get();
  // A checkpoint's or that file's are to come, and nothing is missing there.
  how.skip_init = built.deferred && !options.model.init_from.empty() && options.checkpoint.allow_missing.empty();
  train::run_agreeing([&] {
    sharded = fsdp::fully_shard(built.model->module(), mesh, *fsdp::parse_wrap_policy(options.sharding.wrap), how);
  });
  return sharded;
}

std::unique_ptr<data::Dataset> open_data(comm::ProcessGroup& world, const models::ModelEntry& entry,
                                         const TrainOptions& options, data::Split split) {
  std::unique_ptr<data::Dataset> dataset;
  if (split == data::Split::test && !train::validates(options)) return dataset;
  const auto all = train::run_everywhere(world, [&]() -> std::string {
    dataset = entry.open_data(train::data_request(options), split);
    return dataset ? fmt::format("{} {}", dataset->size(), dataset->fingerprint()) : "";
  });
  const bool test = split == data::Split::test && !options.data.test_path.empty();
  train::run_everywhere(world, [&]() -> std::string {
    SHOAL_CHECK(all[static_cast<std::size_t>(world.rank())] == all[0], DataError,
                "--{} {}: this rank reads other data there than rank 0", test ? "test-data" : "data",
                (test ? options.data.test_path : options.data.path).string());
    return "";
  });
  return dataset;
}

std::unique_ptr<fsdp::ShardedOptimizer> make_optimizer(fsdp::FullyShardedModule& sharded,
                                                       const train::OptimizerSettings& settings) {
  std::unique_ptr<fsdp::ShardedOptimizer> optimizer;
  train::run_agreeing([&] {
    optimizer = std::make_unique<fsdp::ShardedOptimizer>(
        sharded, optim::make_optimizer(settings.rule),
        optim::ParameterGroups::parse(settings.no_decay, settings.param_groups));
  });
  return optimizer;
}

std::unique_ptr<checkpoint::Checkpointer> open_checkpoints(comm::ProcessGroup& world, const TrainOptions& options,
                                                           at::Device device,
                                                           const std::optional<checkpoint::Fence>& fence) {
  constexpr int kReadWorkers = 4;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer;
  if (!train::writes_checkpoints(options)) return checkpointer;
  const std::int64_t stage_bytes = train::stage_bytes(world, options.checkpoint);
  train::run_agreeing([&] {
    checkpointer = std::make_unique<checkpoint::Checkpointer>(
        world, checkpoint::CheckpointerOptions{.directory = options.checkpoint.directory,
                                               .keep = options.checkpoint.keep,
                                               .files = options.checkpoint.files,
                                               .view = options.checkpoint.view == "on",
                                               .fence = fence,
                                               .keep_every = options.checkpoint.keep_every,
                                               .stage_bytes = stage_bytes,
                                               .allocate_stage = train::stage_allocator(device),
                                               .read_workers = std::min(kReadWorkers, at::get_num_threads())});
  });
  return checkpointer;
}

train::RateFacts rate_facts(const TrainOptions& options, std::int64_t parameters, at::Device device) {
  constexpr double kTera = 1e12;
  const models::ModelOptions& shape = options.model.shape;
  train::RateFacts facts;
  if (shape.max_positions > 0) facts.tokens_a_sample = train::sequence_length(options);
  facts.flops_a_sample = train::flops_a_sample(shape, parameters, facts.tokens_a_sample);
  const bool sixteen_bits = options.sharding.param_dtype == "bf16" || options.sharding.param_dtype == "fp16";
  facts.peak_flops = options.run.peak_tflops > 0 ? kTera * options.run.peak_tflops
                                                 : train::peak_flops(train::device_name(device), sixteen_bits);
  return facts;
}

train::JobFacts job_facts() {
  const launch::SlurmEnvironment slurm = launch::read_slurm_environment(launch::read_environment(environ));
  train::JobFacts facts;
  if (!slurm.in_job()) return facts;
  facts.job.address = slurm.job_name_for_slurm();
  facts.job.chain = slurm.array_job_id ? std::to_string(slurm.array_job_id->value) : facts.job.address;
  if (slurm.restart_count) facts.job.restart_count = static_cast<int>(slurm.restart_count->value);
  facts.job.heterogeneous = slurm.het_size.has_value();
  if (slurm.end_time) facts.slurm_end_time = slurm.end_time->value;
  return facts;
}

void load_initial_weights(comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded, const TrainOptions& options) {
  const train::ModelSource& source = options.model;
  train::run_agreeing([&] {
    StateDict state = sharded.state_dict();
    const auto report =
        checkpoint::load_weights(world, source.init_from, state,
                                 {.rank0_reads = source.rank0_reads, .rules = train::match_rules(options.checkpoint)});
    state.loaded();
    log::info("initial weights from {}: {}", source.init_from.string(), report.text());
  });
}

}  // namespace shoal::apps
