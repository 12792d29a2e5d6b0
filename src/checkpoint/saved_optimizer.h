// The state dict of a torch.optim optimizer: {"state": {PARAMETER: {"exp_avg": …, "step": …}}, "param_groups": […]}.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/foreign_names.h"
#include "formats/torch_archive.h"

namespace shoal::checkpoint {

// Globals that files of a training run name beside tensors: options, generators, NumPy's numbers, the loss scalers of
// DeepSpeed. They become nodes that nobody looks at.
bool is_training_global(std::string_view global);

// Learning rate, weight decay and the like of a list of parameter groups.
void note_groups(formats::TorchArchive& archive, const formats::PickleNode* groups, OptimizerFacts& facts);

// Its tensors as "optimizer/STATE/NAME". Parameters are named, or numbered in the order of `model`, which then must
// agree in number and shape: CheckpointError where it does not, or where there are several groups of numbers, since
// then the file does not tell whose state is whose.
std::vector<formats::StoredTensor> read_saved_optimizer(formats::TorchArchive& archive,
                                                        const formats::PickleNode& optimizer,
                                                        const std::vector<formats::StoredTensor>& model,
                                                        OptimizerFacts& facts);

}  // namespace shoal::checkpoint
