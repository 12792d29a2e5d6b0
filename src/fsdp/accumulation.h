// What becomes of gradients between the micro-steps of a step.
#pragma once

namespace shoal::fsdp {

// FullyShardedModule::set_requires_gradient_sync() and set_requires_all_reduce() make it so.
enum class Accumulation {
  none,    // there is one micro-step
  defer,   // each is reduced to shards; replicas sum theirs at the step
  reduce,  // each is reduced, and replicas sum theirs
  keep,    // all but the last keep whole gradients
};

}  // namespace shoal::fsdp
