// A step of an optimizer over a flat shard in the memory of the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "fsdp/trained_flat.h"
#include "optim/optimizer.h"

namespace shoal::fsdp {

// The arrays of one flat shard, all on the host and cut alike.
struct HostArrays {
  at::Tensor master, gradient;
  std::vector<at::Tensor> states;
  at::Tensor rounded;  // gets the new master, rounded to nearest even; undefined where nothing wants it
};

// By LibTorch's threads, the same bits for any number of them. `groups` are those that the spans number. An array is
// read and written once, in pieces that stay in a core's cache until they are rounded.
void step_on_host(const optim::Optimizer& rule, const HostArrays& arrays, std::span<const GroupSpan> spans,
                  std::span<const optim::GroupRule> groups, const StepFactors& factors);

}  // namespace shoal::fsdp
