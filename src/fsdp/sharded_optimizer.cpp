#include "fsdp/sharded_optimizer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "fsdp/fully_shard.h"
#include "fsdp/runtime.h"

namespace shoal::fsdp {

// arrays[f][s]: state s of trained flat parameter f, cut like its master.
struct ShardedOptimizer::State {
  std::vector<FlatParameter*> flats;
  std::vector<std::vector<at::Tensor>> arrays;
};

ShardedOptimizer::ShardedOptimizer(FullyShardedModule& module, std::unique_ptr<optim::Optimizer> rule)
    : module_(&module), rule_(std::move(rule)), state_(std::make_unique<State>()) {
  module_->runtime().for_each_flat([&](FlatParameter& flat) {
    if (!flat.trained()) return;
    state_->flats.push_back(&flat);
    std::vector<at::Tensor> arrays;
    for (std::size_t s = 0; s < rule_->state_names().size(); ++s) arrays.push_back(at::zeros_like(flat.master()));
    state_->arrays.push_back(std::move(arrays));
  });
}

ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::step(double lr, double grad_scale) {
  ++steps_;
  for (std::size_t f = 0; f < state_->flats.size(); ++f) {
    FlatParameter& flat = *state_->flats[f];
    const at::Tensor& gradient = flat.gradient();
    if (!gradient.defined()) continue;
    optim::FlatSpan span;
    span.dtype = torch_internals::dtype_of(flat.master().scalar_type());
    span.param = flat.master().data_ptr();
    span.grad = gradient.data_ptr();
    for (const at::Tensor& array : state_->arrays[f]) span.state.push_back(array.data_ptr());
    span.count = flat.master().numel();
    span.on_device = !flat.master().is_cpu();
    span.stream = torch_internals::current_stream(flat.master().device());
    rule_->step(span, steps_, lr, grad_scale);
    flat.master_changed();
    flat.drop_gradients();
  }
}

StateDict ShardedOptimizer::state_dict() {
  StateDict state;
  const std::vector<std::string> names = rule_->state_names();
  for (std::size_t s = 0; s < names.size(); ++s)
    for (std::size_t f = 0; f < state_->flats.size(); ++f)
      state.append(state_->flats[f]->state_dict("optimizer/" + names[s] + "/", state_->arrays[f][s]));
  return state;
}

}  // namespace shoal::fsdp
