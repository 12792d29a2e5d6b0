// One step: micro-steps forward and backward, sums over all ranks, clipping, the optimizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "fsdp/accumulation.h"
#include "train/asks.h"
#include "train/batch_plan.h"
#include "train/host_scalar.h"
#include "train/loss_scaler.h"
#include "train/parts.h"

namespace shoal::train {

struct StepResult {
  double loss_sum = 0;     // over all samples of the step, of all ranks
  std::int64_t count = 0;  // what the loss is a mean over, of all ranks: samples, or tokens
  std::int64_t samples = 0;
  std::int64_t tokens = 0;          // in these samples; 0 where they are not of tokens
  std::optional<double> grad_norm;  // before clipping; nothing where nobody asked for it
  double data_seconds = 0;          // in which the host waited for batches and brought them to the device
  Asks asked;                       // of any rank
  bool overflowed = false;          // fp16 gradients: the step was left out
  double loss_scale = 1;            // of the next step
  double mean_loss() const { return loss_sum / static_cast<double>(count); }
};

struct StepOptions {
  std::uint64_t seed = 1;
  double clip_grad_norm = 0;  // 0: none
  fsdp::Accumulation accumulation = fsdp::Accumulation::defer;
  std::optional<LossScaleOptions> loss_scale;  // for fp16
  std::function<void()> before_update;         // called before parameters and moments change; may be empty
};

class StepRunner {
 public:
  StepRunner(TrainParts parts, BatchPlan plan, const StepOptions& options);

  // Collective over the world. Trains on the samples at `places` of the epoch's order, whose micro-batches of this rank
  // `next_batch` gives one after the other. `step` counts the steps before this one. `asks`: what this rank was
  // asked, when the gradients are there; all ranks learn of it here, without a message of its own. It may be empty.
  // `with_norm`: the gradient's norm is computed though nothing is clipped. A loss that is not finite is an AgreedError
  // that says where it came from, and the step is not taken.
  StepResult run(data::Sampler& sampler, const std::function<data::Batch()>& next_batch, std::int64_t epoch,
                 Range places, std::int64_t step, double lr, const std::function<Asks()>& asks = {},
                 bool with_norm = false);

  // Null without loss scaling.
  LossScaler* loss_scaler() const { return scaler_.get(); }

 private:
  struct Loss {
    HostScalar sum;
    std::int64_t count;
  };
  Loss backward(const data::Batch& batch, bool counts);
  data::Batch to_model(const data::Batch& batch) const;
  void check_finite(const StepResult& result, const std::vector<double>& losses, data::Sampler& sampler,
                    std::int64_t epoch, Range places, std::int64_t step);
  std::string find_nonfinite(data::Sampler& sampler, std::int64_t epoch, const MicroStep& micro, std::int64_t step);
  void take_step(StepResult& result, std::int64_t step, double lr, bool with_norm);

  TrainParts parts_;
  BatchPlan plan_;
  StepOptions options_;
  std::unique_ptr<LossScaler> scaler_;
  double loss_factor_ = 1;  // of the step at hand: what losses were multiplied by before backward
};

}  // namespace shoal::train
