// The batches of a rank, in the order in which its micro-steps take them.
#pragma once

#include "data/dataset.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "train/batch_plan.h"

namespace shoal::train {

class BatchFeed {
 public:
  // From `start` on, without end. `dataset` outlives the feed. A thread prepares `prefetch` batches ahead; 0: none
  // does.
  BatchFeed(const data::Dataset& dataset, const data::Sampler& sampler, const BatchPlan& plan, int rank,
            data::SamplePosition start, int prefetch, data::Loader::Memory memory = data::Loader::Memory::plain);

  // Throws what the dataset threw.
  data::Batch next();

 private:
  data::Loader loader_;
};

}  // namespace shoal::train
