// The model on the test data, every sample once.
#pragma once

#include <cstdint>

#include "models/model.h"
#include "train/parts.h"

namespace shoal::train {

// Collective over the world; there must be test data. Batches of `batch_size` samples of all ranks together, in the
// order of the dataset, divided evenly among the ranks, of which a thread prepares `prefetch` ahead. The same sums at
// any number of ranks, up to rounding.
models::EvalSum evaluate(const TrainParts& parts, std::int64_t batch_size, int prefetch);

}  // namespace shoal::train
