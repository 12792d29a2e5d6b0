// An optimizer over the shards of a FullyShardedModule: it owns the state arrays, one of each kind a flat parameter.
#pragma once

#include <cstdint>
#include <memory>

#include "optim/optimizer.h"
#include "shard/state_dict.h"

namespace shoal::fsdp {

class FullyShardedModule;

class ShardedOptimizer {
 public:
  // `module` must outlive the optimizer.
  ShardedOptimizer(FullyShardedModule& module, std::unique_ptr<optim::Optimizer> rule);
  ~ShardedOptimizer();
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  // One step with gradient * grad_scale, then the gradients are gone. Collective over the mesh's replicate group, whose
  // gradients are summed here if grad_norm() has not done it. Frozen parameters keep their value; unused ones take part
  // with gradients of zero.
  void step(double lr, double grad_scale);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }  // after a restart

  // "optimizer/<state>/<FQN>", cut like the parameters.
  StateDict state_dict();

 private:
  struct State;
  FullyShardedModule* module_;
  std::unique_ptr<optim::Optimizer> rule_;
  std::unique_ptr<State> state_;
  std::int64_t steps_ = 0;
};

}  // namespace shoal::fsdp
