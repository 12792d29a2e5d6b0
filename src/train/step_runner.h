// One step: micro-steps forward and backward, sums over all ranks, clipping, the optimizer.
#pragma once

#include <cstdint>

#include "data/sampler.h"
#include "train/batch_plan.h"
#include "train/parts.h"

namespace shoal::train {

struct StepResult {
  double loss_sum = 0;     // over all samples of the step, of all ranks
  std::int64_t count = 0;  // what the loss is a mean over, of all ranks: samples, or tokens
  std::int64_t samples = 0;
  double grad_norm = 0;     // before clipping; 0 where nothing is clipped
  bool stop_asked = false;  // on some rank
  double mean_loss() const { return loss_sum / static_cast<double>(count); }
};

class StepRunner {
 public:
  StepRunner(TrainParts parts, BatchPlan plan, std::uint64_t seed, double clip_grad_norm)
      : parts_(parts), plan_(plan), seed_(seed), clip_grad_norm_(clip_grad_norm) {}

  // Collective over the world. Trains on the samples at `places` of the epoch's order. `step` counts the steps before
  // this one. `stop_asked`: whether this rank was asked to stop; all ranks learn of it here, without a message of its
  // own. A loss that is not finite is an AgreedError, and the step is not taken.
  StepResult run(data::Sampler& sampler, std::int64_t epoch, Range places, std::int64_t step, double lr,
                 bool stop_asked);

 private:
  models::LossSum backward(std::span<const std::int64_t> samples, bool counts);

  TrainParts parts_;
  BatchPlan plan_;
  std::uint64_t seed_;
  double clip_grad_norm_;
};

}  // namespace shoal::train
