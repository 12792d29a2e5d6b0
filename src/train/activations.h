// What a micro-batch of these options takes of a rank's memory, without training.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "fsdp/activation_plan.h"
#include "models/registry.h"
#include "train/batch_plan.h"
#include "train/options.h"

namespace shoal::train {

// Builds the model once more, without memory. `options.model.shape` is complete; `micro_batch`: samples. `data`, which
// may be null, tells what samples look like where the model's entry does not. Throws nothing: what is wrong is in
// ActivationPlan::unknown.
fsdp::ActivationPlan plan_activations(const models::ModelEntry& entry, const TrainOptions& options,
                                      std::int64_t micro_batch, bool on_gpu, const data::Dataset* data);

}  // namespace shoal::train
