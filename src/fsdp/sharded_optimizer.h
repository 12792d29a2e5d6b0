// An optimizer over the shards of a FullyShardedModule: it owns the state arrays, one of each kind a flat parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fsdp/state_memory.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"
#include "shard/state_dict.h"

namespace shoal::fsdp {

class FullyShardedModule;
struct StepFactors;
struct TrainedFlat;

class ShardedOptimizer {
 public:
  // `module` must outlive the optimizer. Groups change how shards are stepped, not how they or their states are laid
  // out. OptionError where a name in `groups` takes none of the module's parameters, frozen ones included.
  ShardedOptimizer(FullyShardedModule& module, std::unique_ptr<optim::Optimizer> rule,
                   const optim::ParameterGroups& groups = {});
  ~ShardedOptimizer();
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  // One step with gradient * grad_scale, then the gradients are gone. Collective over the mesh's replicate group, whose
  // gradients are summed here if grad_norm() has not done it. Frozen parameters keep their value; unused ones take part
  // with gradients of zero. Shards on the host are stepped by LibTorch's threads, the same bits for any number of them.
  //
  // Returns when everything is queued. Offloaded shards are stepped while the caller goes on: a unit that is needed
  // next, state_dict() and everything else that reads parameters or states waits for what it needs, and throws there
  // what the step threw.
  void step(double lr, double grad_scale);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }  // after a restart

  int states() const;  // arrays beside a parameter: 2 for Adam
  // "optimizer/<state>/<FQN>", cut like the parameters.
  StateDict state_dict(StateMemory memory = StateMemory::host);
  // Bytes of all of its tensors, of the whole model; nothing is copied for it.
  std::int64_t state_bytes() const;

  // A line a group, in the order of the parameters, for a run's start: "parameter group 1: 50 parameters, 124318464
  // elements, weight decay 0.1, learning rate x 1".
  std::string print_groups() const;

 private:
  struct State;
  void step_host_shard(const TrainedFlat& trained, const at::Tensor& gradient, const StepFactors& factors) const;
  void step_offloaded(const StepFactors& factors);
  void step_device_shards(at::ScalarType dtype, const std::vector<const TrainedFlat*>& flats,
                          const StepFactors& factors);

  FullyShardedModule* module_;
  std::unique_ptr<optim::Optimizer> rule_;
  std::unique_ptr<State> state_;
  std::int64_t steps_ = 0;
};

}  // namespace shoal::fsdp
