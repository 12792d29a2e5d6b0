// shoal-plan: what a job will need, before there is one. Builds the model without memory for its weights; no MPI.
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ckpt_text.h"
#include "apps/command_line.h"
#include "apps/plan_options.h"
#include "apps/run_program.h"
#include "core/check.h"
#include "fsdp/deferred_init.h"
#include "fsdp/memory_plan.h"
#include "fsdp/step_traffic.h"
#include "optim/optimizer.h"
#include "train/activations.h"
#include "train/batch_plan.h"

extern char** environ;

namespace shoal::apps {
namespace {

using train::TrainOptions;
using Rows = std::vector<std::vector<std::string>>;

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string gib(std::int64_t bytes) { return fmt::format("{:.3f}", static_cast<double>(bytes) / kGiB); }

// One line of the table.
struct Planned {
  fsdp::Strategy strategy;
  fsdp::MeshShape mesh;
  fsdp::MemoryPlan memory;
  fsdp::StepTraffic traffic;
};

class Planner {
 public:
  explicit Planner(const PlanOptions& options);

  Planned plan(fsdp::Strategy strategy, const fsdp::ActivationPlan& activations);
  std::int64_t parameters();
  std::int64_t checkpoint_bytes();
  const train::BatchPlan& batches() const { return batches_; }
  std::int64_t on_top(const fsdp::ActivationPlan& activations, const fsdp::MemoryPlan& memory) const {
    return activations.on_top(memory, options_->train.run.device != "cpu");
  }
  // Of a micro-batch; the same for all strategies.
  fsdp::ActivationPlan activations() const;

 private:
  std::vector<fsdp::UnitSizes> units(const fsdp::MeshShape& mesh, const fsdp::FullyShardOptions& how);

  const PlanOptions* options_;
  fsdp::DeferredInit deferred_;
  std::unique_ptr<models::Model> model_;
  train::BatchPlan batches_;
  int states_;  // arrays of the optimizer
};

Planner::Planner(const PlanOptions& options) : options_(&options) {
  const TrainOptions& train = options.train;
  const models::ModelEntry& entry = models::find_model(train.model.name);
  const models::ModelOptions shape = models::complete(entry, train.model.shape);
  deferred_.record([&] { model_ = entry.make(shape); });
  batches_ = train::plan_batches(train.batch, options.ranks, entry.defaults.batch_size);
  states_ = static_cast<int>(optim::make_optimizer(train.optimizer.rule)->state_names().size());
}

std::vector<fsdp::UnitSizes> Planner::units(const fsdp::MeshShape& mesh, const fsdp::FullyShardOptions& how) {
  return fsdp::unit_sizes(*model_->module(), *fsdp::parse_wrap_policy(options_->train.sharding.wrap), mesh, how,
                          options_->train.run.device == "cpu");
}

Planned Planner::plan(fsdp::Strategy strategy, const fsdp::ActivationPlan& activations) {
  train::ShardingOptions sharding = options_->train.sharding;
  sharding.strategy = fsdp::name_of(strategy);
  if (!fsdp::reshards_after_forward(strategy)) sharding.limit_all_gathers = sharding.reshard_after_forward = 0;
  const int group = fsdp::shard_group_size(strategy, options_->ranks, options_->ranks_per_node, sharding.shard_size);
  SHOAL_CHECK(group >= 1 && options_->ranks % group == 0, OptionError, "--shard-size {} does not divide --ranks {}",
              group, options_->ranks);
  const fsdp::MeshShape mesh{group, options_->ranks / group, sharding.reshard_after_forward};
  const fsdp::FullyShardOptions how = train::fully_shard_options(sharding, options_->train.run.deterministic);
  const auto sizes = units(mesh, how);
  const fsdp::Accumulation accumulation = train::accumulation_of(sharding, batches_.micro_steps);
  return {strategy, mesh,
          fsdp::plan_of(sizes, mesh, how, states_, static_cast<std::int64_t>(options_->card_gib * kGiB), accumulation),
          fsdp::step_traffic(sizes, mesh, how, batches_.micro_steps, accumulation, activations.idle_in_backward)};
}

std::int64_t Planner::parameters() {
  std::int64_t numel = 0;
  for (const auto& unit : units({}, {}))
    for (const auto& flat : unit.flats) numel += flat.numel;
  return numel;
}

// As in a checkpoint: masters and states of the whole model, and its buffers.
std::int64_t Planner::checkpoint_bytes() {
  std::int64_t bytes = 0;
  for (const auto& unit : units({}, {}))
    for (const auto& flat : unit.flats) bytes += flat.saved * (1 + (flat.trained ? states_ : 0));
  for (const at::Tensor& buffer : model_->module()->buffers())
    bytes += static_cast<std::int64_t>(buffer.numel()) * static_cast<std::int64_t>(buffer.element_size());
  return bytes;
}

// For a GPU, unless the options say otherwise: here there may be none.
fsdp::ActivationPlan Planner::activations() const {
  TrainOptions train = options_->train;
  const models::ModelEntry& entry = models::find_model(train.model.name);
  train.model.shape = models::complete(entry, train.model.shape);
  return train::plan_activations(entry, train, batches_.rank_batch(), train.run.device != "cpu", nullptr);
}

std::string table(const Planner& planner, const std::vector<Planned>& plans, const fsdp::ActivationPlan& activations,
                  double card_gib) {
  const bool known = activations.unknown.empty(), asks_what_fits = card_gib > 0;
  Rows rows{{"strategy", "ranks", "parameters", "gradients", "optimizer", "unit buffers", "copies", "activations",
             known ? "peak" : "sum", "host", "sent a step"}};
  if (asks_what_fits) rows[0].insert(rows[0].end(), {known ? "left" : "for activations", "fits"});
  for (const Planned& planned : plans) {
    const fsdp::MemoryPlan& m = planned.memory;
    const std::int64_t on_top = planner.on_top(activations, m);
    rows.push_back({fsdp::name_of(planned.strategy), fmt::format("{} x {}", planned.mesh.replicate, planned.mesh.shard),
                    gib(m.masters + m.compute_shards), gib(m.gradients + m.kept_gradients), gib(m.optimizer_states),
                    gib(m.unit_buffers), gib(m.copies), known ? gib(on_top) : "?", gib(m.fixed() + on_top),
                    gib(m.host + activations.host), gib(planned.traffic.total())});
    if (!asks_what_fits) continue;
    const std::int64_t left = m.left_for_activations() - on_top;
    rows.back().insert(rows.back().end(), {left > 0 ? gib(left) : "-", left > 0 ? "yes" : "no"});
  }
  return table_text(rows);
}

nlohmann::ordered_json json_of(const fsdp::ActivationPlan& activations) {
  if (!activations.unknown.empty()) return {{"unknown", activations.unknown}};
  return {{"kept", activations.kept}, {"peak", activations.peak}, {"host", activations.host}};
}

std::string json_of(Planner& planner, const std::vector<Planned>& plans, const fsdp::ActivationPlan& activations) {
  nlohmann::ordered_json json{{"parameters", planner.parameters()},
                              {"checkpoint_bytes", planner.checkpoint_bytes()},
                              {"micro_steps", planner.batches().micro_steps},
                              {"activations", json_of(activations)},
                              {"strategies", nlohmann::ordered_json::array()}};
  for (const Planned& planned : plans) {
    const fsdp::MemoryPlan& m = planned.memory;
    auto& row = json["strategies"].emplace_back();
    row = {{"strategy", fsdp::name_of(planned.strategy)},
           {"replicas", planned.mesh.replicate},
           {"shards", planned.mesh.shard},
           {"masters", m.masters},
           {"compute_shards", m.compute_shards},
           {"gradients", m.gradients},
           {"kept_gradients", m.kept_gradients},
           {"optimizer_states", m.optimizer_states},
           {"unit_buffers", m.unit_buffers},
           {"copies", m.copies},
           {"sum", m.fixed()},
           {"host", m.host + activations.host},
           {"gathered", planned.traffic.gathered},
           {"reduced", planned.traffic.reduced},
           {"replicated", planned.traffic.replicated}};
    if (!activations.unknown.empty()) continue;
    const std::int64_t on_top = planner.on_top(activations, m);
    row["activations"] = on_top;
    row["peak"] = m.fixed() + on_top;
  }
  return json.dump(2);
}

void print(Planner& planner, const std::vector<Planned>& plans, const fsdp::ActivationPlan& activations,
           const PlanOptions& options) {
  const TrainOptions& train = options.train;
  log::result(
      "{}: {} parameters; {} ranks, micro-batches of {} a rank, {} micro-steps a step; --wrap {}, --param-dtype "
      "{}, --offload {}, --optimizer {}",
      train.model.name, planner.parameters(), options.ranks, planner.batches().rank_batch(),
      planner.batches().micro_steps, train.sharding.wrap, train.sharding.param_dtype, train.sharding.offload,
      train.optimizer.rule.name);
  log::result("a checkpoint takes {} GiB", gib(planner.checkpoint_bytes()));
  if (activations.unknown.empty())
    log::result("GiB of a rank (ranks: replicas x shards); of the activations {} wait for backward:",
                gib(activations.kept));
  else
    log::result("GiB of a rank, without activations (ranks: replicas x shards), which are not known: {}",
                activations.unknown);
  log::print_result(table(planner, plans, activations, options.card_gib));
}

ExitCode run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{kDescribe}) {
    log::print_result(plan_description());
    return ExitCode::ok;
  }
  const auto options = parse_plan_options(arguments, environ);
  if (!options) {
    log::print_result(plan_help());
    return ExitCode::ok;
  }
  Planner planner(*options);
  const fsdp::ActivationPlan activations = planner.activations();
  std::vector<Planned> plans;
  for (const auto strategy : {fsdp::Strategy::full_shard, fsdp::Strategy::shard_grad_op, fsdp::Strategy::hybrid_shard,
                              fsdp::Strategy::hybrid_shard_zero2, fsdp::Strategy::no_shard})
    plans.push_back(planner.plan(strategy, activations));
  if (options->json) {
    log::print_result(json_of(planner, plans, activations));
    return ExitCode::ok;
  }
  print(planner, plans, activations, *options);
  return ExitCode::ok;
}

}  // namespace
}  // namespace shoal::apps

int main(int argc, char** argv) {
  return static_cast<int>(shoal::apps::run_program([&] { return shoal::apps::run({argv + 1, argv + argc}); }));
}
