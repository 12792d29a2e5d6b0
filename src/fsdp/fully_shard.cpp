#include "fsdp/fully_shard.h"

#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "core/check.h"
#include "core/hash.h"
#include "fsdp/deferred_init.h"
#include "fsdp/initial_values.h"
#include "fsdp/mesh_check.h"
#include "fsdp/mixed_precision.h"
#include "fsdp/module_state.h"
#include "fsdp/runtime.h"
#include "fsdp/unit_plan.h"

namespace shoal::fsdp {
namespace {

using torch::nn::Module;

std::string text_of(at::ScalarType module_dtype, const FullyShardOptions& options) {
  const FlatDtypes types = flat_dtypes(module_dtype, options);
  return fmt::format("{} as {} reduced in {}", c10::toString(types.module), c10::toString(types.params),
                     c10::toString(types.reduced));
}

std::string description(const UnitPlan& plan, const FullyShardOptions& options) {
  std::string text = fmt::format("reshard_after_forward={}, deterministic={}, skip_init={}, activation_checkpoint={}\n",
                                 options.reshard_after_forward, options.deterministic, options.skip_init,
                                 options.activation_checkpoint);
  for (const UnitMembers& unit : plan.units) {
    for (const ModuleParameter& p : unit.parameters)
      text += fmt::format(
          "parameter '{}' of unit '{}': {} {}{}{}\n", p.fqn, unit.fqn, text_of(p.tensor.scalar_type(), options),
          fmt::format("[{}]", fmt::join(p.tensor.sizes(), ", ")), p.tensor.requires_grad() ? "" : ", frozen",
          options.deferred_init && options.deferred_init->is_deferred(p.tensor) ? ", deferred" : "");
  }
  return text;
}

// Ranks with different models would exchange nonsense: compared before anything else is sent.
void check_same_on_all_ranks(comm::ProcessGroup& world, const std::string& mine) {
  const auto hash = static_cast<std::int64_t>(hash_string(mine));
  if (comm::all_reduce(world, hash, comm::ReduceOp::min) == comm::all_reduce(world, hash, comm::ReduceOp::max)) return;
  const std::string first = comm::broadcast_bytes(world, mine);
  const auto differ = std::mismatch(mine.begin(), mine.end(), first.begin(), first.end());
  const auto line = [](const std::string& text, std::string::const_iterator at) {
    const auto begin = std::find(std::make_reverse_iterator(at), text.rend(), '\n').base();
    return std::string(begin, std::find(at, text.end(), '\n'));
  };
  const std::string problem =
      mine == first ? "" : fmt::format("here: {}; on rank 0: {}", line(mine, differ.first), line(first, differ.second));
  const auto problems = comm::all_gather_bytes(world, problem);
  const auto bad = std::find_if(problems.begin(), problems.end(), [](const std::string& p) { return !p.empty(); });
  throw CommunicationError("ranks built different models or options; rank {} has {}", bad - problems.begin(), *bad);
}

}  // namespace

void* current_stream(c10::Device device) { return torch_internals::current_stream(device); }

FullyShardedModule::FullyShardedModule(std::unique_ptr<Runtime> runtime, std::unique_ptr<ModuleState> state)
    : runtime_(std::move(runtime)), state_(std::move(state)) {}
FullyShardedModule::~FullyShardedModule() = default;

std::unique_ptr<FullyShardedModule> fully_shard(std::shared_ptr<Module> module, comm::DeviceMesh& mesh,
                                                const WrapPolicy& policy, const FullyShardOptions& options) {
  check_mixed_precision(options);
  UnitPlan plan = plan_units(*module, policy);
  SHOAL_CHECK(!plan.units.empty(), OptionError, "the model has no parameters: there is nothing to shard");
  check_same_on_all_ranks(mesh.world(), description(plan, options));
  const at::Device device = options.device.value_or(plan.units.front().parameters.front().tensor.device());
  if (options.check_replicas_at_start) check_mesh(mesh, device);
  const InitialValues initial_values(mesh, options, device);
  auto runtime = std::make_unique<Runtime>(mesh, options, device);
  for (const UnitMembers& unit : plan.units) runtime->add_unit(unit, initial_values);
  runtime->prepare();
  auto state = std::make_unique<ModuleState>(module, *runtime, policy.text(), std::move(plan.aliases));
  if (options.deferred_init) options.deferred_init->fill_rest();
  state->place_buffers(device);
  if (options.sync_module_states) state->broadcast_buffers();
  state->check_dtypes();
  return std::unique_ptr<FullyShardedModule>(new FullyShardedModule(std::move(runtime), std::move(state)));
}

void FullyShardedModule::run(const std::function<void()>& body) { runtime_->run(body); }
void FullyShardedModule::set_requires_gradient_sync(bool sync) { runtime_->set_requires_gradient_sync(sync); }
void FullyShardedModule::set_requires_all_reduce(bool all_reduce) { runtime_->set_requires_all_reduce(all_reduce); }
std::int64_t FullyShardedModule::unsynced_gradient_bytes() const { return runtime_->unsynced_gradient_bytes(); }
double FullyShardedModule::grad_norm(double grad_scale) { return state_->grad_norm(grad_scale); }
void FullyShardedModule::zero_grad() { runtime_->drop_gradients(); }
void FullyShardedModule::summon_full_params(const std::function<void()>& body, bool write_back) {
  runtime_->summon_full_params(body, write_back);
}
void FullyShardedModule::sync_buffers() { state_->sync_buffers(); }
StateDict FullyShardedModule::state_dict(StateMemory memory) { return state_->state_dict(memory); }
std::int64_t FullyShardedModule::state_bytes() const { return state_->bytes(); }
std::string FullyShardedModule::dtypes() const { return state_->dtypes(); }

std::string FullyShardedModule::print() const { return state_->print(); }
std::int64_t FullyShardedModule::parameter_count() const { return state_->parameter_count(); }

}  // namespace shoal::fsdp
