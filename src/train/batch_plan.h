// How many samples a step takes, and how it is divided into micro-steps.
#pragma once

#include <cstdint>

#include "shard/shard_layout.h"
#include "train/options.h"

namespace shoal::train {

struct BatchPlan {
  std::int64_t global_batch = 0;  // samples of a full step
  std::int64_t micro_steps = 1;   // of a full step
  int ranks = 1;

  std::int64_t micro_batch() const { return (global_batch + micro_steps - 1) / micro_steps; }  // over all ranks
  std::int64_t rank_batch() const { return (micro_batch() + ranks - 1) / ranks; }              // the largest of a rank

  // The last step of an epoch has fewer samples, and as many micro-steps as these fill.
  std::int64_t micro_steps_for(std::int64_t samples) const {
    return samples == global_batch ? micro_steps : (samples + micro_batch() - 1) / micro_batch();
  }
};

// OptionError where the options contradict each other, or a micro-step would leave ranks without samples.
BatchPlan plan_batches(const BatchOptions& options, int ranks, std::int64_t default_batch_size);

}  // namespace shoal::train
