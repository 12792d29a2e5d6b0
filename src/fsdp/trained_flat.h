// What an optimizer has for one flat parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "fsdp/flat_parameter.h"
#include "optim/parameter_groups.h"
#include "shard/shard_layout.h"

namespace shoal::fsdp {

// Elements of this rank's shard that are stepped alike.
struct GroupSpan {
  std::size_t group;
  Range elements;
};

struct TrainedFlat {
  FlatParameter* flat;
  std::vector<at::Tensor> states;  // cut like the master, and where it is
  std::vector<GroupSpan> spans;    // without the padding
};

// What a step asks of the rule.
struct StepFactors {
  std::int64_t step;  // from 1
  double lr, grad_scale;
};

}  // namespace shoal::fsdp
