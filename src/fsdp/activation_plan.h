// What the forward and backward pass of a micro-batch takes of the device beside what plan_of() counts: found by going
// through it with tensors that have no memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fsdp/fully_shard.h"
#include "fsdp/memory_plan.h"

namespace torch::nn {
class Module;
}

namespace shoal::fsdp {

// Bytes.
struct ActivationPlan {
  std::int64_t kept = 0;  // at the end of the forward pass: the batch, and what waits for backward
  std::int64_t peak = 0;  // the most at a time, with what operators and autograd need on the way
  std::int64_t host = 0;  // pinned memory of --activation-offload
  // Forward, and backward up to the first gradient; then backward between such events.
  struct Stretch {
    std::int64_t elements;  // of the gradients complete before it
    std::int64_t peak;      // the most at a time
    std::int64_t left;      // at its end
    GradientEvent end;
  };
  std::vector<Stretch> stretches = {};
  // Names of units whose parameters backward does not use, as that of an embedding: they are not gathered again.
  std::vector<std::string> idle_in_backward = {};
  // Why nothing is known, for one line; else empty.
  std::string unknown = {};

  // The most that comes on top of plan.fixed(). On a GPU there is memory for gradients only as backward completes them,
  // where no earlier micro-step has left any, and for those on their way only while they are.
  std::int64_t on_top(const MemoryPlan& plan, bool on_gpu) const;
};

// `module`, which is used up by this, need have no memory (DeferredInit): it gets tensors of the meta device, of the
// types of `options`, in units after `policy`. `loss` computes the loss of a batch, of tensors of the meta device that
// it makes itself. Recomputation and activation offload are those of `options`. `on_gpu`: operators allocate as on a
// GPU, else as on the CPU. Where an operator cannot do without values, that is what `unknown` says.
ActivationPlan plan_activations(torch::nn::Module& module, const WrapPolicy& policy, const FullyShardOptions& options,
                                bool on_gpu, const std::function<at::Tensor()>& loss);

}  // namespace shoal::fsdp
