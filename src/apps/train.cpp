// shoal-train: trains a model on the ranks of an MPI job.
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <exception>
#include <optional>
#include <sstream>
#include <string_view>

#include "apps/command_line.h"
#include "apps/train_dry_run.h"
#include "apps/train_failure.h"
#include "apps/train_options.h"
#include "apps/train_placement.h"
#include "apps/train_setup.h"
#include "checkpoint/catalog.h"
#include "comm/mpi_process_group.h"
#include "core/activity.h"
#include "core/logging.h"
#include "core/trace.h"
#include "core/trace_summary.h"
#include "fsdp/memory_plan.h"
#include "fsdp/mesh_check.h"
#include "fsdp/trace_file.h"
#include "launch/job_watch.h"
#include "launch/stop_signal.h"
#include "optim/optimizer.h"
#include "train/activations.h"
#include "train/agreement.h"
#include "train/device.h"
#include "train/finish.h"
#include "train/lustre_stripes.h"
#include "train/trainer.h"

namespace shoal::apps {
namespace {

using train::TrainOptions;

// What floating inputs are cast to: the parameters' type.
std::optional<at::ScalarType> input_dtype(const TrainOptions& options) {
  return train::fully_shard_options(options.sharding, false).mixed_precision.param_dtype;
}

// Where gradients are between micro-steps, and what that costs or saves.
void announce_accumulation(const train::TrainParts& parts, const TrainOptions& options, std::int64_t micro_steps) {
  const double whole = static_cast<double>(parts.sharded.unsynced_gradient_bytes()) / (1 << 20);
  const bool keeps = train::parse_accumulate_mode(options.sharding.accumulate_mode) == fsdp::Accumulation::keep;
  log::info("{} micro-steps a step; --accumulate-mode {}: {}", micro_steps, options.sharding.accumulate_mode,
            keeps ? fmt::format("whole gradients, {:.1f} MiB a rank, are kept until the last", whole)
                  : fmt::format("each is reduced, which saves {:.1f} MiB of whole gradients a rank", whole));
}

std::int64_t checkpoint_bytes(const train::TrainParts& parts) {
  return parts.sharded.state_bytes() + parts.optimizer.state_bytes();
}

// The run in a few lines, and whether there is room for its checkpoints.
void announce(const train::TrainParts& parts, const TrainOptions& options, const train::BatchPlan& plan) {
  train::log_options(options);
  std::int64_t steps = 0;
  train::run_agreeing([&] { steps = train::total_steps(options, plan, parts.train_data.size()); });
  log::info("{} ranks, {} threads each; {} parameters; {} training and {} test samples; {} steps of {} samples",
            parts.world.size(), at::get_num_threads(), parts.sharded.parameter_count(), parts.train_data.size(),
            parts.test_data ? parts.test_data->size() : 0, steps, plan.global_batch);
  log::info("{}", parts.sharded.dtypes());
  std::istringstream groups(parts.optimizer.print_groups());
  for (std::string line; std::getline(groups, line);) log::info("{}", line);
  if (plan.micro_steps > 1) announce_accumulation(parts, options, plan.micro_steps);
  if (train::writes_checkpoints(options)) {
    const std::int64_t bytes = checkpoint_bytes(parts);
    train::run_everywhere(parts.world, [&]() -> std::string {
      if (parts.world.rank() == 0) train::check_room(options, bytes, parts.world.size());
      return "";
    });
    log::info("a checkpoint takes {:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  }
  if (options.run.dry_run) print_comment("dry run: everything is in order; nothing was trained or written");
}

// Before the first file is made.
void hint_stripes(const train::TrainParts& parts, const TrainOptions& options,
                  const checkpoint::Checkpointer& checkpointer) {
  const double file_bytes = static_cast<double>(checkpoint_bytes(parts)) / checkpointer.files();
  if (parts.world.rank() != 0 || !checkpoint::list_checkpoints(options.checkpoint.directory).empty()) return;
  const std::string told = train::set_stripes(options.checkpoint.directory, file_bytes);
  if (!told.empty()) log::info("{}", told);
}

void write_trace(fsdp::FullyShardedModule& sharded, const std::filesystem::path& path) {
  std::vector<StepTimes> steps;
  train::run_agreeing([&] { steps = fsdp::write_trace(sharded, path.string()); });
  log::result("wrote {}: {}", path.string(), steps.empty() ? "too short a run, nothing was recorded" : text_of(steps));
}

ExitCode train_and_save(const train::TrainParts& parts, const TrainOptions& options, const train::BatchPlan& plan,
                        train::JobRun& job) {
  const auto checkpointer = open_checkpoints(parts.world, options, parts.device, job.fence());
  if (checkpointer) hint_stripes(parts, options, *checkpointer);
  train::Trainer trainer(parts, options, plan, checkpointer.get(), job.hooks(checkpoint_bytes(parts)));
  trainer.restore();
  job.going_on_from(trainer.progress().step, trainer.last_step(), train::device_name(parts.device));
  if (trainer.last_checkpoint().empty() && !options.model.init_from.empty())
    load_initial_weights(parts.world, parts.sharded, options);
  const train::Outcome outcome = trainer.run();
  if (!options.run.trace.empty()) write_trace(parts.sharded, options.run.trace);
  if (outcome == train::Outcome::finished && train::writes_output(options))
    train::write_output(parts.world, trainer.last_checkpoint(), options.checkpoint);
  trainer.summarize();
  activity::enter(activity::Operation::finish);
  if (outcome == train::Outcome::finished) {
    job.finished(trainer.progress());
    return ExitCode::ok;
  }
  log::result("stopped on request after step {}; the same command goes on from there", trainer.progress().step);
  return job.stopped(trainer.stopped_by());
}

// "9480.1 MiB, 5120.0 of them activations"
std::string planned_sum(const fsdp::MemoryPlan& memory, const models::ModelEntry& entry, const TrainOptions& options,
                        const train::BatchPlan& plan, at::Device device, const data::Dataset* data) {
  const auto mebibytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const auto activations = train::plan_activations(entry, options, plan.rank_batch(), !device.is_cpu(), data);
  const std::int64_t on_top = activations.on_top(memory, !device.is_cpu());
  if (activations.unknown.empty())
    return fmt::format("{:.1f} MiB, {:.1f} of them activations", mebibytes(memory.fixed() + on_top), mebibytes(on_top));
  return fmt::format("{:.1f} MiB without activations ({})", mebibytes(memory.fixed()), activations.unknown);
}

// Where it does not fit, the error says what was planned.
ExitCode train_within_memory(const train::TrainParts& parts, const TrainOptions& options, const train::BatchPlan& plan,
                             const models::ModelEntry& entry, train::JobRun& job) {
  const auto memory = fsdp::plan_of(parts.sharded, parts.optimizer.states(), train::device_memory(parts.device),
                                    train::accumulation_of(options.sharding, plan.micro_steps));
  if (!parts.device.is_cpu()) log::info("memory: {}", fsdp::text_of(memory));
  try {
    const ExitCode code = train_and_save(parts, options, plan, job);
    // Beside the peak, which was told last.
    if (parts.world.rank() == 0)
      log::result("planned for that: {}{}", planned_sum(memory, entry, options, plan, parts.device, &parts.train_data),
                  parts.device.is_cpu() ? ", and the program itself" : "");
    return code;
  } catch (const c10::OutOfMemoryError& error) {
    throw DeviceError("{}", fsdp::explain_out_of_memory(memory, error.what_without_backtrace()));
  }
}

void announce_mesh(comm::DeviceMesh& mesh) {
  log::info("{}", fsdp::topology(mesh));
  for (const std::string& line : mesh.describe()) log::info("{}", line);
}

// What a dry run says of memory.
std::string planned_text(fsdp::FullyShardedModule& sharded, const TrainOptions& options,
                         const models::ModelEntry& entry, const train::BatchPlan& plan, at::Device device) {
  const auto states = optim::make_optimizer(options.optimizer.rule)->state_names().size();
  const auto memory = fsdp::plan_of(sharded, static_cast<int>(states), train::device_memory(device),
                                    train::accumulation_of(options.sharding, plan.micro_steps));
  const std::string parts = device.is_cpu() ? "" : ": " + fsdp::text_of(memory);
  return fmt::format("memory of a rank: {}{}; shoal plan compares strategies",
                     planned_sum(memory, entry, options, plan, device, nullptr), parts);
}

ExitCode build_and_train(const launch::Placement& placement, comm::ProcessGroup& world, const TrainOptions& options,
                         const models::ModelEntry& entry, const train::BatchPlan& plan, train::JobRun& job) {
  const at::Device device = place_ranks(world, placement, options.run, job.attempt());
  const c10::OptionalDeviceGuard on_device(device);
  const bool trains = !options.data.path.empty() && !options.run.dry_run;
  train::WarmUp warm_up(trains ? device : at::Device(at::kCPU), warm_up_plan(options));
  const auto device_group = make_device_group(world, device);
  const auto mesh = make_mesh(world, device_group ? *device_group : world, placement, options.sharding);
  announce_mesh(*mesh);
  const BuiltModel built = build_model(world, entry, options, device);
  Trace trace = options.run.trace.empty() ? Trace(1, 0) : Trace();  // for lines of progress, one step each at least
  const auto sharded = shard(built, *mesh, device, options, &trace);
  if (options.run.dry_run) {
    show_dry_run(options, *mesh, *sharded);
    if (world.rank() == 0) print_comment(planned_text(*sharded, options, entry, plan, device));
  } else if (options.run.print_model) {
    log::print_result(sharded->print());
  }
  if (options.data.path.empty()) {
    if (options.run.dry_run) print_comment("dry run: without --data, nothing could be said of data and steps");
    return ExitCode::ok;
  }

  const auto train_data = open_data(world, entry, options, data::Split::train);
  const auto test_data = open_data(world, entry, options, data::Split::test);
  const auto optimizer = make_optimizer(*sharded, options.optimizer);
  const train::TrainParts parts{.world = world,
                                .model = *built.model,
                                .sharded = *sharded,
                                .optimizer = *optimizer,
                                .train_data = *train_data,
                                .test_data = test_data.get(),
                                .device = device,
                                .input_dtype = input_dtype(options),
                                .metric = entry.metric,
                                .trace = &trace,
                                .rates = rate_facts(options, sharded->parameter_count(), device)};
  announce(parts, options, plan);
  if (options.run.dry_run) return ExitCode::ok;
  warm_up.finish();
  return recording_failures([&] { return train_within_memory(parts, options, plan, entry, job); });
}

std::chrono::milliseconds hang_timeout(const TrainOptions& options) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(options.job.hang_timeout * 1000));
}

// One attempt: whatever ends it is noted.
ExitCode run(const launch::Placement& placement, comm::ProcessGroup& world, const launch::StopSignal& stop,
             const std::vector<std::string>& arguments, std::optional<launch::JobWatch>& watch) {
  std::optional<TrainOptions> given = agreed_options(world, arguments);
  if (!given) {
    log::print_result(train_help());
    return ExitCode::ok;
  }
  TrainOptions& options = *given;
  const models::ModelEntry& entry = models::find_model(options.model.name);
  const train::BatchPlan plan = settle(world, placement, entry, options);
  train::JobRun job(world, options, job_facts(), stop);
  if (!options.data.path.empty() && !options.run.dry_run) {
    if (const auto nothing_to_do = job.ends_at_once()) return *nothing_to_do;
    job.begin();
    watch.emplace(launch::JobWatchOptions{.hang_timeout = hang_timeout(options), .attempt = job.attempt()});
  }
  try {
    return recording_failures([&] { return build_and_train(placement, world, options, entry, plan, job); });
  } catch (const Error& error) {
    job.ended(error.exit_code(), error.what());
    throw;
  } catch (const std::exception& error) {
    job.ended(ExitCode::internal, error.what());
    throw;
  }
}

// One rank's view of the job. Errors that all ranks have are told here, while MPI can still end in good order.
ExitCode run_session(int argc, char** argv, std::optional<launch::JobWatch>& watch) {
  const launch::MpiSession mpi(&argc, &argv);
  // From here on a signal only leaves a note; what started before has had its chance to take it.
  const launch::StopSignal stop(launch::StopSignal::Afterwards::ignored);
  comm::MpiProcessGroup world(MPI_COMM_WORLD);
  try {
    return run(mpi.placement(), world, stop, {argv + 1, argv + argc}, watch);
  } catch (const train::AgreedError& error) {
    if (world.rank() == 0) {
      log::set_rank(-1);  // the text names the rank, where one is to be named
      log::error("{}", error.what());
    }
    return error.exit_code();
  }
}

}  // namespace
}  // namespace shoal::apps

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == shoal::apps::kDescribe) {  // the driver asks, outside of any job
    shoal::log::print_result(shoal::apps::train_description());
    return 0;
  }
  std::optional<shoal::launch::JobWatch> watch;  // longer than MPI, and than what is put in order after an error
  try {
    return static_cast<int>(shoal::apps::run_session(argc, argv, watch));
  } catch (...) {
    shoal::apps::fail_job();
  }
}
