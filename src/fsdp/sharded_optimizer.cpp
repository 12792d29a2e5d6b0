#include "fsdp/sharded_optimizer.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/check.h"
#include "fsdp/fully_shard.h"
#include "fsdp/runtime.h"

namespace shoal::fsdp {
namespace {

// A part of a span below which another thread costs more than it gives.
constexpr std::int64_t kElementsAThread = 1 << 15;

// Elements of this rank's shard that are stepped alike.
struct GroupSpan {
  std::size_t group;
  Range elements;
};

struct Group {
  optim::GroupRule rule;
  std::int64_t parameters = 0, elements = 0;  // of the whole model
};

struct TrainedFlat {
  FlatParameter* flat;
  std::vector<at::Tensor> states;  // cut like the master
  std::vector<GroupSpan> spans;    // without the padding
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

struct StepFactors {
  std::int64_t step;
  double lr, grad_scale;
};

// `span` over `count` elements whose parameters, states and gradients are at `data`, in this order.
optim::FlatSpan placed(optim::FlatSpan span, std::span<char* const> data, std::int64_t count) {
  span.param = data.front();
  span.state.assign(data.begin() + 1, data.end() - 1);
  span.grad = data.back();
  span.count = count;
  return span;
}

void step_on_device(const optim::Optimizer& rule, const optim::FlatSpan& span, const std::vector<at::Tensor>& arrays,
                    const StepFactors& factors) {
  std::vector<char*> data;
  for (const at::Tensor& array : arrays) data.push_back(static_cast<char*>(array.data_ptr()));
  optim::FlatSpan whole = placed(span, data, arrays[0].numel());
  whole.on_device = true;
  whole.stream = torch_internals::current_stream(arrays[0].device());
  rule.step(whole, factors.step, factors.lr, factors.grad_scale);
}

void step_on_host(const optim::Optimizer& rule, const optim::FlatSpan& span, const std::vector<at::Tensor>& arrays,
                  const StepFactors& factors) {
  // The iterator is how LibTorch's element-wise operators share their work among its threads.
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).resize_outputs(false);
  for (std::size_t i = 0; i + 1 < arrays.size(); ++i) config.add_output(arrays[i]);
  at::TensorIterator iterator = config.add_const_input(arrays.back()).build();
  const auto step_part = [&](char** data, const std::int64_t* /*strides*/, std::int64_t count, std::int64_t rows) {
    SHOAL_ASSERT(rows == 1);  // flat arrays have no second dimension
    rule.step(placed(span, {data, arrays.size()}, count), factors.step, factors.lr, factors.grad_scale);
  };
  iterator.for_each(step_part, kElementsAThread);
}

// `elements` of the parameters, of each state and of the gradient.
std::vector<at::Tensor> arrays_of(const TrainedFlat& trained, const at::Tensor& gradient, Range elements) {
  std::vector<at::Tensor> arrays{trained.flat->master()};
  arrays.insert(arrays.end(), trained.states.begin(), trained.states.end());
  arrays.push_back(gradient);
  for (at::Tensor& array : arrays) array = array.narrow(0, elements.begin, elements.count);
  return arrays;
}

}  // namespace

struct ShardedOptimizer::State {
  std::vector<Group> groups;
  std::vector<TrainedFlat> flats;
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
    for (std::size_t s = 0; s < rule_->state_names().size(); ++s)
      trained.states.push_back(at::zeros_like(flat.master()));
    state_->flats.push_back(std::move(trained));
  });
  groups.check_used(names);
}

ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::step(double lr, double grad_scale) {
  ++steps_;
  for (const TrainedFlat& trained : state_->flats) {
    FlatParameter& flat = *trained.flat;
    const at::Tensor& gradient = flat.gradient();
    if (!gradient.defined()) continue;
    for (const auto& [group, elements] : trained.spans) {
      const optim::GroupRule& rule = state_->groups[group].rule;
      optim::FlatSpan span;
      span.dtype = torch_internals::dtype_of(flat.master().scalar_type());
      span.weight_decay = rule.weight_decay;
      const auto step_span = flat.master().is_cpu() ? step_on_host : step_on_device;
      step_span(*rule_, span, arrays_of(trained, gradient, elements), {steps_, lr * rule.lr_scale, grad_scale});
    }
    flat.master_changed();
    flat.drop_gradients();
  }
}

StateDict ShardedOptimizer::state_dict() {
  StateDict state;
  const std::vector<std::string> names = rule_->state_names();
  for (std::size_t s = 0; s < names.size(); ++s)
    for (const TrainedFlat& trained : state_->flats)
      state.append(trained.flat->state_dict("optimizer/" + names[s] + "/", trained.states[s]));
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
