// How many samples a step takes, and how they are divided into micro-steps and among the ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "shard/shard_layout.h"
#include "train/options.h"

namespace shoal::train {

// What a rank does in one micro-step.
struct MicroStep {
  Range places;         // of the epoch's order; never empty
  bool counts = true;   // false: the samples are another rank's, trained on with a loss of zero for company's sake
  std::int64_t number;  // of the micro-batch: with the next, what its random numbers are seeded by
  int seed_rank;
};

// Micro-batches are even parts of a step, and a rank's share of them even parts of these. With `fixed_size` a
// micro-batch is always so many consecutive samples (fewer at the end), and number k of a step is trained by rank
// k % ranks in micro-step k / ranks: the same micro-batches, with the same random numbers, at any number of ranks.
struct BatchPlan {
  std::int64_t global_batch = 0;  // samples of a full step
  std::int64_t micro_steps = 1;   // of a full step
  int ranks = 1;
  std::int64_t fixed_size = 0;  // 0: even parts

  std::int64_t micro_batch() const;  // over all ranks
  std::int64_t rank_batch() const;   // the largest of a rank
  // The last step of an epoch has fewer samples, and as many micro-steps as these fill.
  std::int64_t micro_steps_for(std::int64_t samples) const;
  // What `rank` does in the step of the samples at `places`.
  std::vector<MicroStep> rank_steps(Range places, int rank) const;
};

// OptionError where the options contradict each other, or a micro-step would leave ranks without samples.
BatchPlan plan_batches(const BatchOptions& options, int ranks, std::int64_t default_batch_size);

// Of a run over `samples` training samples: --max-steps, or what the epochs have. OptionError where --warmup is longer.
std::int64_t total_steps(const TrainOptions& options, const BatchPlan& plan, std::int64_t samples);

}  // namespace shoal::train
