#include "fsdp/sharded_optimizer.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "fsdp/device_step.h"
#include "fsdp/fully_shard.h"
#include "fsdp/host_memory.h"
#include "fsdp/host_step.h"
#include "fsdp/offload_step.h"
#include "fsdp/runtime.h"

namespace shoal::fsdp {
namespace {

struct Group {
  optim::GroupRule rule;
  std::int64_t parameters = 0, elements = 0;  // of the whole model
};

std::size_t group_of(const optim::GroupRule& rule, std::vector<Group>& groups) {
  const auto known = std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.rule == rule; });
  if (known != groups.end()) return static_cast<std::size_t>(known - groups.begin());
  groups.push_back({rule});
  return groups.size() - 1;
}

// The spans of this rank's shard, with neighbours of one group joined; counts the parameters in `groups`.
std::vector<GroupSpan> make_spans(const FlatParameter& flat, int shard_rank, const optim::ParameterGroups& rules,
                                  std::vector<Group>& groups) {
  std::vector<GroupSpan> spans;
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    const ModuleParameter& parameter = flat.parameters()[i];
    const std::size_t group = group_of(rules.match(parameter.fqn, parameter.tensor.dim()), groups);
    ++groups[group].parameters;
    groups[group].elements += flat.layout().tensor(i).count;
    const TensorSlice mine = flat.layout().slice(i, shard_rank);
    if (mine.count == 0) continue;
    if (!spans.empty() && spans.back().group == group)
      spans.back().elements.count += mine.count;
    else
      spans.push_back({group, {mine.shard_begin, mine.count}});
  }
  return spans;
}

std::vector<optim::GroupRule> rules_of(const std::vector<Group>& groups) {
  std::vector<optim::GroupRule> rules;
  for (const Group& group : groups) rules.push_back(group.rule);
  return rules;
}

// A state of the optimizer for a shard with this master.
at::Tensor zeros_beside(const at::Tensor& master) {
  return zeros_on(master.device(), master.is_cpu(), master.numel(), master.scalar_type());
}

}  // namespace

struct ShardedOptimizer::State {
  std::vector<Group> groups;
  std::vector<TrainedFlat> flats;
  std::map<at::ScalarType, DeviceStep> on_device;  // by the masters' type; made in the first step
  std::unique_ptr<OffloadStep> offloaded;          // made in the first step, where masters are beside a device
};

ShardedOptimizer::ShardedOptimizer(FullyShardedModule& module, std::unique_ptr<optim::Optimizer> rule,
                                   const optim::ParameterGroups& groups)
    : module_(&module), rule_(std::move(rule)), state_(std::make_unique<State>()) {
  const int shard_rank = module_->runtime().mesh().shard().rank();
  std::vector<std::string> names;
  module_->runtime().for_each_flat([&](FlatParameter& flat) {
    for (const ModuleParameter& parameter : flat.parameters()) names.push_back(parameter.fqn);
    if (!flat.trained()) return;
    TrainedFlat trained{&flat, {}, make_spans(flat, shard_rank, groups, state_->groups)};
    for (std::size_t s = 0; s < rule_->state_names().size(); ++s) trained.states.push_back(zeros_beside(flat.master()));
    state_->flats.push_back(std::move(trained));
  });
  groups.check_used(names);
}

ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::step(double lr, double grad_scale) {
  const StepFactors factors{++steps_, lr, grad_scale};
  module_->runtime().start_replica_sums();
  if (module_->runtime().offloads()) return step_offloaded(factors);
  UnitTrace* const trace = module_->runtime().unit_trace();
  auto start = trace != nullptr ? trace->mark() : nullptr;
  std::map<at::ScalarType, std::vector<const TrainedFlat*>> on_device;
  for (const TrainedFlat& trained : state_->flats) {
    FlatParameter& flat = *trained.flat;
    const at::Tensor gradient = flat.gradient();
    if (!flat.master().is_cpu())
      on_device[flat.master().scalar_type()].push_back(&trained);
    else if (gradient.defined())
      step_host_shard(trained, gradient, factors);
  }
  for (const auto& [dtype, flats] : on_device) step_device_shards(dtype, flats, factors);
  if (trace != nullptr) trace->add(Trace::Lane::optimizer, "optimizer step", std::move(start));
  for (const TrainedFlat& trained : state_->flats) trained.flat->drop_gradients();
}

// In the order of the units, which is near that of the next forward pass.
void ShardedOptimizer::step_offloaded(const StepFactors& factors) {
  Runtime& runtime = module_->runtime();
  if (!state_->offloaded)
    state_->offloaded = std::make_unique<OffloadStep>(state_->flats, runtime.copies(), runtime.options().trace);
  state_->offloaded->finish();
  state_->offloaded->begin(*rule_, rules_of(state_->groups), factors);
  for (std::size_t i = 0; i < state_->flats.size(); ++i)
    if (const at::Tensor gradient = state_->flats[i].flat->gradient(); gradient.defined())
      state_->offloaded->start(i, gradient);
}

void ShardedOptimizer::step_host_shard(const TrainedFlat& trained, const at::Tensor& gradient,
                                       const StepFactors& factors) const {
  FlatParameter& flat = *trained.flat;
  const at::Tensor& gathered = flat.gathered_shard();
  const bool rounds = gathered.defined() && gathered.is_cpu() && !gathered.is_same(flat.master());
  step_on_host(*rule_, {flat.master(), gradient, trained.states, rounds ? gathered : at::Tensor()}, trained.spans,
               rules_of(state_->groups), factors);
  if (!rounds) flat.master_changed();
}

void ShardedOptimizer::step_device_shards(at::ScalarType dtype, const std::vector<const TrainedFlat*>& flats,
                                          const StepFactors& factors) {
  std::vector<at::Tensor> gradients;
  for (const TrainedFlat* trained : flats) gradients.push_back(trained->flat->gradient());
  auto step = state_->on_device.find(dtype);
  if (step == state_->on_device.end()) step = state_->on_device.try_emplace(dtype, flats, dtype).first;
  step->second.run(*rule_, gradients, rules_of(state_->groups), factors);
}

int ShardedOptimizer::states() const { return static_cast<int>(rule_->state_names().size()); }

std::int64_t ShardedOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const TrainedFlat& trained : state_->flats)
    bytes += states() * trained.flat->layout().numel() * trained.flat->master().element_size();
  return bytes;
}

StateDict ShardedOptimizer::state_dict(StateMemory memory) {
  if (state_->offloaded) state_->offloaded->finish();
  StateDict state;
  const std::vector<std::string> names = rule_->state_names();
  for (std::size_t s = 0; s < names.size(); ++s)
    for (const TrainedFlat& trained : state_->flats)
      state.append(trained.flat->state_dict("optimizer/" + names[s] + "/", trained.states[s], memory));
  return state;
}

std::string ShardedOptimizer::print_groups() const {
  std::string text;
  for (std::size_t i = 0; i < state_->groups.size(); ++i) {
    const auto& [rule, parameters, elements] = state_->groups[i];
    text += fmt::format("{}parameter group {}: {} parameter{}, {} elements, weight decay {:g}, learning rate x {:g}",
                        i > 0 ? "\n" : "", i + 1, parameters, parameters == 1 ? "" : "s", elements,
                        rule.weight_decay.value_or(rule_->weight_decay()), rule.lr_scale);
  }
  return text;
}

}  // namespace shoal::fsdp
