#include "fsdp/memory_plan.h"

#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "fsdp/buffer_plan.h"
#include "fsdp/runtime.h"

namespace shoal::fsdp {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / kGiB; }

constexpr const char* kKept = "whole gradients";
constexpr const char* kCopies = "gradients under way";

struct Part {
  const char* name;
  std::int64_t bytes;
};

// In the order in which a run gets them.
std::array<Part, 7> parts_of(const MemoryPlan& plan) {
  return {{{"masters", plan.masters},
           {"compute shards", plan.compute_shards},
           {"unit buffers", plan.unit_buffers},
           {"optimizer states", plan.optimizer_states},
           {"gradients", plan.gradients},
           {kKept, plan.kept_gradients},
           {kCopies, plan.copies}}};
}

// The first part with which the device is full; null where all of them fit.
const char* part_that_does_not_fit(const MemoryPlan& plan) {
  std::int64_t sum = 0;
  for (const Part& part : parts_of(plan))
    if ((sum += part.bytes) > plan.device_total) return part.name;
  return nullptr;
}

// The smallest number of ranks among which the parts that are cut leave room for the others; 0: no number does.
std::int64_t ranks_that_fit(const MemoryPlan& plan) {
  const std::int64_t room = plan.device_total - plan.unit_buffers - plan.kept_gradients;
  const std::int64_t cut = (plan.fixed() - plan.unit_buffers - plan.kept_gradients) * plan.shard_size;
  return room > 0 ? (cut + room - 1) / room : 0;
}

// What would be gained by moving masters, gradients and states to the host, and what is left of them there.
bool fits_with_optimizer_offload(const MemoryPlan& plan) {
  return plan.compute_shards + plan.unit_buffers <= plan.device_total;
}

std::string without_kept_gradients(const MemoryPlan& plan) {
  return fmt::format("--accumulate-mode defer, which frees {:.1f} GiB", gib(plan.kept_gradients));
}

std::vector<std::string> remedies_for_fixed_parts(const MemoryPlan& plan) {
  std::vector<std::string> remedies;
  if (plan.kept_gradients > 0) remedies.push_back(without_kept_gradients(plan));
  if (plan.shard_size < plan.world_size)
    remedies.push_back(fmt::format("--strategy full_shard, which cuts them among all {} ranks", plan.world_size));
  if (plan.offload == Offload::none && fits_with_optimizer_offload(plan)) remedies.push_back("--offload optimizer");
  if (plan.offload != Offload::params && plan.unit_buffers <= plan.device_total) remedies.push_back("--offload params");
  const std::int64_t ranks = ranks_that_fit(plan);
  if (ranks > plan.world_size) remedies.push_back(fmt::format("{} ranks or more", ranks));
  if (ranks == 0)
    remedies.push_back("smaller units (--wrap), since those in use at a time fill the device by themselves");
  return remedies;
}

std::vector<std::string> remedies_for_activations(const MemoryPlan& plan) {
  std::vector<std::string> remedies{"a smaller --batch-size with as much more --accumulate"};
  if (plan.kept_gradients > 0) remedies.push_back(without_kept_gradients(plan));
  if (!plan.recomputes_all) remedies.push_back("--activation-checkpoint full");
  if (!plan.activation_offload) remedies.push_back("--activation-offload");
  if (plan.offload == Offload::none)
    remedies.push_back(fmt::format("--offload optimizer, which frees {:.1f} GiB",
                                   gib(plan.masters + plan.gradients + plan.optimizer_states)));
  if (plan.offload == Offload::optimizer)
    remedies.push_back(fmt::format("--offload params, which frees {:.1f} GiB", gib(plan.compute_shards)));
  if (plan.shard_size < plan.world_size)
    remedies.push_back(fmt::format("--strategy full_shard, which cuts the rest among all {} ranks", plan.world_size));
  else
    remedies.push_back("more ranks");
  return remedies;
}

void add_shards_of(const FlatSizes& flat, int optimizer_states, MemoryPlan& plan) {
  const std::int64_t trained = flat.trained ? flat.master : 0;
  if (flat.master_on_host()) {
    plan.host += flat.master + (1 + optimizer_states) * trained;
  } else {
    plan.masters += flat.master;
    plan.gradients += trained;
    plan.optimizer_states += optimizer_states * trained;
  }
  (flat.compute_on_host() ? plan.host : plan.compute_shards) += flat.compute;
}

}  // namespace

MemoryPlan plan_of(const std::vector<UnitSizes>& units, const MeshShape& mesh, const FullyShardOptions& options,
                   int optimizer_states, std::int64_t device_total, Accumulation accumulation) {
  MemoryPlan plan{.device_total = device_total,
                  .shard_size = mesh.shard,
                  .world_size = mesh.ranks(),
                  .accumulation = accumulation,
                  .offload = options.offload,
                  .recomputes_all = options.activation_checkpoint == "full",
                  .activation_offload = options.activation_offload};
  plan.unit_buffers = plan_buffers(units, options).bytes();
  plan.in_flight = GradientsInFlight(units, mesh, options, accumulation);
  plan.copies = plan.in_flight.device();
  plan.host = plan.in_flight.host();
  for (const UnitSizes& unit : units)
    for (const FlatSizes& flat : unit.flats) {
      add_shards_of(flat, optimizer_states, plan);
      const std::int64_t shard = flat.trained && !flat.master_on_host() ? flat.master : 0;
      if (accumulation == Accumulation::keep && flat.kept > shard) plan.kept_gradients += flat.kept - shard;
      if (!unit.is_root()) plan.unit_buffers += flat.regather;
    }
  return plan;
}

MemoryPlan plan_of(FullyShardedModule& module, int optimizer_states, std::int64_t device_total,
                   Accumulation accumulation) {
  const Runtime& runtime = module.runtime();
  return plan_of(runtime.unit_sizes(), shape_of(runtime.mesh()), runtime.options(), optimizer_states, device_total,
                 accumulation);
}

std::string text_of(const MemoryPlan& plan) {
  std::vector<std::string> texts;
  for (const Part& part : parts_of(plan))
    if (part.bytes > 0 || (part.name != kKept && part.name != kCopies))
      texts.push_back(fmt::format("{} {:.1f}", part.name, gib(part.bytes)));
  const std::string rest = plan.left_for_activations() >= 0
                               ? fmt::format("left for activations {:.1f}", gib(plan.left_for_activations()))
                               : fmt::format("missing {:.1f}", gib(-plan.left_for_activations()));
  const std::string host = plan.host > 0 ? fmt::format("; on the host {:.1f} GiB", gib(plan.host)) : "";
  return fmt::format("{}, {} of {:.1f} GiB{}", fmt::join(texts, ", "), rest, gib(plan.device_total), host);
}

std::string explain_out_of_memory(const MemoryPlan& plan, const std::string& cause) {
  const char* const part = part_that_does_not_fit(plan);
  const auto remedies = part ? remedies_for_fixed_parts(plan) : remedies_for_activations(plan);
  return fmt::format("out of memory: {}; the plan for this rank was {}; {} did not fit; use {}",
                     cause.substr(0, cause.find('\n')), text_of(plan), part ? part : "the activations of a micro-batch",
                     fmt::join(remedies, ", or "));
}

}  // namespace shoal::fsdp
