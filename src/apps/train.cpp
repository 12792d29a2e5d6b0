// shoal-train: trains a model on the ranks of an MPI job.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <thread>

#include "apps/train_options.h"
#include "checkpoint/checkpointer.h"
#include "comm/device_mesh.h"
#include "comm/mpi_process_group.h"
#include "comm/nccl_process_group.h"
#include "core/check.h"
#include "core/logging.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "launch/mpi_session.h"
#include "launch/stop_signal.h"
#include "train/agreement.h"
#include "train/device.h"
#include "train/finish.h"
#include "train/random_seed.h"
#include "train/thread_share.h"
#include "train/trainer.h"

extern char** environ;

namespace shoal::apps {
namespace {

using train::TrainOptions;

// The same on every rank: a launcher may give its environment to some nodes and not to others.
std::optional<TrainOptions> agreed_options(comm::ProcessGroup& world, const std::vector<std::string>& arguments) {
  std::optional<TrainOptions> options;
  const auto all = train::run_everywhere(world, [&] {
    options = parse_train_options(arguments, environ);
    std::string text;
    if (options)
      for (const auto& [name, value] : train::resolved(*options)) text += fmt::format("--{} {}\n", name, value);
    return text;
  });
  train::run_everywhere(world, [&]() -> std::string {
    const std::string& mine = all[static_cast<std::size_t>(world.rank())];
    SHOAL_CHECK(mine == all[0], OptionError,
                "this rank has other options than rank 0; give them on the command line or in --config FILE, or let "
                "the launcher pass SHOAL_ variables on (mpirun -x, srun --export)");
    return "";
  });
  return options;
}

void set_threads(comm::ProcessGroup& world, const launch::Placement& placement, int requested) {
  const int fair = train::fair_threads(world, placement.host);
  const char* const openmp = std::getenv("OMP_NUM_THREADS");
  if (requested > 0) at::set_num_threads(requested);
  if (requested == 0 && openmp == nullptr) at::set_num_threads(fair);
}

// What the ranks must know of each other before the options are complete.
train::BatchPlan settle(comm::ProcessGroup& world, const launch::Placement& placement, const models::ModelEntry& entry,
                        TrainOptions& options) {
  log::set_quiet(options.run.quiet);
  world.set_timeout(std::chrono::milliseconds(static_cast<std::int64_t>(options.run.collective_timeout * 1000)));
  train::BatchPlan plan;
  train::run_everywhere(world, [&]() -> std::string {
    plan = train::plan_batches(options.batch, world.size(), entry.defaults.batch_size);
    return "";
  });
  options.batch = {plan.rank_batch(), plan.global_batch, plan.micro_steps};
  set_threads(world, placement, options.run.threads);
  return plan;
}

// The same kind of device on all ranks.
at::Device agree_on_device(comm::ProcessGroup& world, const launch::Placement& placement, const std::string& wanted) {
  at::Device device = at::kCPU;
  const auto all = train::run_everywhere(world, [&] {
    device = train::choose_device(wanted, placement.local_rank, placement.local_size);
    return std::string(device.is_cuda() ? "a GPU" : "no GPU");
  });
  train::run_everywhere(world, [&]() -> std::string {
    const std::string& mine = all[static_cast<std::size_t>(world.rank())];
    SHOAL_CHECK(mine == all[0], DeviceError, "--device {}: this rank has {}, but rank 0 has {}; use --device cpu",
                wanted, mine, all[0]);
    return "";
  });
  return device;
}

// The group for tensors of `device`, where that is not host memory.
std::unique_ptr<comm::ProcessGroup> make_device_group(comm::ProcessGroup& world, at::Device device) {
  if (device.is_cpu()) return nullptr;
  return comm::make_nccl_group(world, device.index(), [device] { return fsdp::current_stream(device); });
}

std::unique_ptr<comm::DeviceMesh> make_mesh(comm::ProcessGroup& world, comm::ProcessGroup& device_world,
                                            const launch::Placement& placement, const train::ShardingOptions& options) {
  const int shard_size = fsdp::shard_group_size(fsdp::parse_strategy(options.strategy), world.size(),
                                                placement.local_size, options.shard_size);
  std::unique_ptr<comm::DeviceMesh> mesh;
  train::run_agreeing([&] { mesh = std::make_unique<comm::DeviceMesh>(world, device_world, shard_size); });
  return mesh;
}

std::unique_ptr<fsdp::FullyShardedModule> shard(models::Model& model, comm::DeviceMesh& mesh,
                                                const train::ShardingOptions& options) {
  std::unique_ptr<fsdp::FullyShardedModule> sharded;
  train::run_agreeing([&] {
    sharded = fsdp::fully_shard(
        model.module(), mesh, *fsdp::parse_wrap_policy(options.wrap),
        {.reshard_after_forward = fsdp::reshards_after_forward(fsdp::parse_strategy(options.strategy)),
         .forward_prefetch = options.forward_prefetch,
         .backward_prefetch = options.backward_prefetch});
  });
  return sharded;
}

// Every rank reads its own copy, and all copies must be the same.
std::unique_ptr<data::Dataset> open_data(comm::ProcessGroup& world, const TrainOptions& options, data::Split split) {
  std::unique_ptr<data::Dataset> dataset;
  const auto all = train::run_everywhere(world, [&] {
    dataset = models::find_model(options.model).open_data({.path = options.data.path}, split);
    return fmt::format("{} {}", dataset->size(), dataset->fingerprint());
  });
  train::run_everywhere(world, [&]() -> std::string {
    SHOAL_CHECK(all[static_cast<std::size_t>(world.rank())] == all[0], DataError,
                "--data {}: this rank reads other data there than rank 0", options.data.path.string());
    return "";
  });
  return dataset;
}

std::unique_ptr<checkpoint::Checkpointer> open_checkpoints(comm::ProcessGroup& world, const TrainOptions& options) {
  std::unique_ptr<checkpoint::Checkpointer> checkpointer;
  if (!train::writes_checkpoints(options)) return checkpointer;
  train::run_agreeing([&] {
    checkpointer = std::make_unique<checkpoint::Checkpointer>(
        world, checkpoint::CheckpointerOptions{options.checkpoint.directory, options.checkpoint.keep});
  });
  return checkpointer;
}

// The run in a few lines, and whether there is room for its checkpoints.
void announce(const train::TrainParts& parts, const TrainOptions& options) {
  train::log_options(options);
  log::info("{} ranks, {} threads each; {} parameters; {} training and {} test samples; {} samples a step",
            parts.world.size(), at::get_num_threads(), parts.sharded.parameter_count(), parts.train_data.size(),
            parts.test_data.size(), options.batch.global_batch_size);
  if (train::writes_checkpoints(options)) {
    StateDict state = parts.sharded.state_dict();
    state.append(parts.optimizer.state_dict());
    const std::int64_t bytes = train::checkpoint_bytes(state);
    train::run_everywhere(parts.world, [&]() -> std::string {
      if (parts.world.rank() == 0) train::check_room(options, bytes);
      return "";
    });
    log::info("a checkpoint takes {:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  }
  if (options.run.dry_run) log::result("dry run: everything is in order; nothing was trained or written");
}

ExitCode train_and_save(const train::TrainParts& parts, const TrainOptions& options, const train::BatchPlan& plan) {
  const launch::StopSignal stop;
  const auto checkpointer = open_checkpoints(parts.world, options);
  train::Trainer trainer(parts, options, plan, checkpointer.get(), [&] { return stop.received(); });
  trainer.restore();
  const train::Outcome outcome = trainer.run();
  if (outcome == train::Outcome::finished && train::writes_output(options))
    train::write_output(parts.world, trainer.last_checkpoint(), options.checkpoint.output);
  trainer.summarize();
  if (outcome == train::Outcome::finished) return ExitCode::ok;
  log::result("stopped on request after step {}; the same command goes on from there", trainer.progress().step);
  return ExitCode::stopped;
}

ExitCode run(const launch::Placement& placement, comm::ProcessGroup& world, const std::vector<std::string>& arguments) {
  std::optional<TrainOptions> given = agreed_options(world, arguments);
  if (!given) {
    log::print_result(train_help());
    return ExitCode::ok;
  }
  TrainOptions& options = *given;
  const models::ModelEntry& entry = models::find_model(options.model);
  const train::BatchPlan plan = settle(world, placement, entry, options);

  const auto seed = static_cast<std::uint64_t>(options.run.seed);
  at::manual_seed(train::model_seed(seed));
  const std::unique_ptr<models::Model> model = entry.make({.seed = seed});
  const at::Device device = agree_on_device(world, placement, options.run.device);
  const c10::OptionalDeviceGuard on_device(device);
  model->module()->to(device);
  const auto device_group = make_device_group(world, device);
  const auto mesh = make_mesh(world, device_group ? *device_group : world, placement, options.sharding);
  const auto sharded = shard(*model, *mesh, options.sharding);
  if (options.run.print_model) log::print_result(sharded->print());
  if (options.data.path.empty()) return ExitCode::ok;

  const auto train_data = open_data(world, options, data::Split::train);
  const auto test_data = open_data(world, options, data::Split::test);
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer(options.optimizer.rule));
  const train::TrainParts parts{world, *model, *sharded, optimizer, *train_data, *test_data, device};
  announce(parts, options);
  if (options.run.dry_run) return ExitCode::ok;
  return train_and_save(parts, options, plan);
}

// One rank's view of the job. Errors that all ranks have are told here, while MPI can still end in good order.
ExitCode run_session(int argc, char** argv) {
  const launch::MpiSession mpi(&argc, &argv);
  comm::MpiProcessGroup world(MPI_COMM_WORLD);
  try {
    return run(mpi.placement(), world, {argv + 1, argv + argc});
  } catch (const train::AgreedError& error) {
    if (world.rank() == 0) {
      log::set_rank(-1);  // the text names the rank, where one is to be named
      log::error("{}", error.what());
    }
    return error.exit_code();
  }
}

ExitCode report_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    log::error("{}", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    log::error("out of memory: use a smaller --batch-size, or more ranks");
    return ExitCode::device;
  } catch (const c10::Error& error) {
    log::error("{}", error.what_without_backtrace());
  } catch (const std::exception& error) {
    log::error("{}", error.what());
  }
  return ExitCode::internal;
}

}  // namespace
}  // namespace shoal::apps

int main(int argc, char** argv) {
  try {
    return static_cast<int>(shoal::apps::run_session(argc, argv));
  } catch (...) {
    shoal::launch::abort_job(shoal::apps::report_current_exception());
  }
}
