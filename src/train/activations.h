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

// What `activations` come to on top of plan.fixed(). On a GPU a rank has memory for gradients only as backward goes on,
// where no earlier micro-step of the step has left any.
inline std::int64_t on_top(const fsdp::ActivationPlan& activations, const fsdp::MemoryPlan& plan,
                           const BatchPlan& batches, bool on_gpu) {
  return on_gpu && batches.micro_steps == 1 ? activations.beside(plan) : activations.peak;
}

}  // namespace shoal::train
