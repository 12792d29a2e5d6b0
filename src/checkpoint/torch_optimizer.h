// The optimizer's state as torch.optim.Optimizer.state_dict() gives it.
#pragma once

#include <vector>

#include "checkpoint/export_plan.h"
#include "formats/torch_zip.h"

namespace shoal::checkpoint {

// {"state": {index: {state: tensor}}, "param_groups": […]} of the optimizer that the training state names, with the
// tensors of the plan as storages of the same number; adds to `storages` what has no tensor of its own (Adam's "step").
// Parameters are those with state or, where the optimizer has none, those that are sharded. They are grouped as they
// were trained (weight decay, learning rate), each group in the model's order, and "param_names" tells which they are.
// Learning rates are the base rates: where the schedule stood is not in it. CheckpointError where the training state is
// not that of a training run.
formats::TorchValue optimizer_state_dict(const Manifest& manifest, const ExportPlan& plan,
                                         std::vector<formats::TorchStorage>& storages);

}  // namespace shoal::checkpoint
