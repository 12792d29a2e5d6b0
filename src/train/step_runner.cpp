#include "train/step_runner.h"

#include <ATen/Context.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "comm/process_group.h"
#include "core/activity.h"
#include "core/timer.h"
#include "train/agreement.h"
#include "train/device.h"
#include "train/random_seed.h"
#include "train/tree_sum.h"

namespace shoal::train {
namespace {

struct LocalSums {
  std::vector<double> losses;  // one a micro-step; after the exchange of all ranks together
  std::int64_t count = 0;
};

// One message a step carries the sums and what the ranks were asked. The losses come micro-step by micro-step, so that
// they are summed in the same tree as the gradients.
StepResult sum_over_ranks(comm::ProcessGroup& world, LocalSums& sums, const Asks& asks) {
  std::vector<double> message = sums.losses;
  for (const auto ask : kAsks) message.push_back(asks.*ask ? 1 : 0);
  message.push_back(static_cast<double>(sums.count));
  activity::enter(activity::Operation::sums);
  world.set_activity("sum of the step's losses");
  world.all_reduce(message.data(), static_cast<std::int64_t>(message.size()), DType::float64, comm::ReduceOp::sum)
      ->wait();
  StepResult result;
  result.count = static_cast<std::int64_t>(message.back());
  for (std::size_t i = 0; i < kAsks.size(); ++i) result.asked.*kAsks[i] = message[sums.losses.size() + i] > 0;
  std::copy_n(message.begin(), sums.losses.size(), sums.losses.begin());
  TreeSum total;
  for (const double loss : sums.losses) total.add(loss);
  result.loss_sum = total.value();
  return result;
}

// What one sample adds to the count a loss is the mean over, at most.
double targets_a_sample(const data::Batch& batch) {
  return static_cast<double>(batch.targets.numel()) / static_cast<double>(batch.targets.size(0));
}

// Of one sample; 0 where its elements are no token ids.
std::int64_t tokens_a_sample(const data::Batch& batch) {
  const bool of_tokens =
      at::isIntegralType(batch.inputs.scalar_type(), /*includeBool=*/false) && batch.inputs.dim() == 2;
  return of_tokens ? batch.inputs.size(1) : 0;
}

}  // namespace

StepRunner::StepRunner(TrainParts parts, BatchPlan plan, const StepOptions& options)
    : parts_(parts), plan_(plan), options_(options) {
  if (options.loss_scale) scaler_ = std::make_unique<LossScaler>(*options.loss_scale);
  parts_.sharded.set_requires_all_reduce(options.accumulation == fsdp::Accumulation::reduce);
}

StepResult StepRunner::run(data::Sampler& sampler, const std::function<data::Batch()>& next_batch, std::int64_t epoch,
                           Range places, std::int64_t step, double lr, const std::function<Asks()>& asks,
                           bool with_norm) {
  const std::vector<MicroStep> micro_steps = plan_.rank_steps(places, parts_.world.rank());
  LocalSums local;
  std::int64_t sample_tokens = 0;
  double data_seconds = 0;
  parts_.model.set_training(true);
  activity::begin_step(step + 1);
  for (const MicroStep& micro : micro_steps) {
    activity::begin_micro_step(&micro - micro_steps.data());
    activity::enter(activity::Operation::data);
    const Timer waiting;
    const data::Batch batch = to_model(next_batch());
    sample_tokens = tokens_a_sample(batch);
    data_seconds += waiting.seconds();
    at::manual_seed(micro_step_seed(options_.seed, step, micro.number, micro.seed_rank));
    const bool last = &micro == &micro_steps.back();
    parts_.sharded.set_requires_gradient_sync(options_.accumulation != fsdp::Accumulation::keep || last);
    // Gradients of the mean, not of the sum, times the scale fit into fp16.
    if (scaler_) loss_factor_ = scaler_->scale() / (static_cast<double>(plan_.global_batch) * targets_a_sample(batch));
    const Loss loss = backward(batch, micro.counts);
    local.losses.push_back(loss.sum.value());
    local.count += loss.count;
  }
  StepResult result = sum_over_ranks(parts_.world, local, asks ? asks() : Asks());
  result.samples = places.count;
  result.tokens = places.count * sample_tokens;
  result.data_seconds = data_seconds;
  check_finite(result, local.losses, sampler, epoch, places, step);
  take_step(result, step, lr, with_norm);
  return result;
}

void StepRunner::take_step(StepResult& result, std::int64_t step, double lr, bool with_norm) {
  activity::enter(activity::Operation::optimizer);
  // A batch without a single target (masked LM may draw one) has nothing to teach; its gradients are zeros.
  double grad_scale = 1.0 / static_cast<double>(std::max<std::int64_t>(result.count, 1)) / loss_factor_;
  if (options_.clip_grad_norm > 0 || scaler_ || with_norm) result.grad_norm = parts_.sharded.grad_norm(grad_scale);
  const bool finite = std::isfinite(result.grad_norm.value_or(0));
  if (scaler_ && !scaler_->update(finite)) {
    parts_.sharded.zero_grad();
    result.overflowed = true;
    result.loss_scale = scaler_->scale();
    return;
  }
  if (!finite)
    throw AgreedError(ExitCode::usage,
                      fmt::format("the gradient of step {} is not finite, though its loss is {}; the step was not "
                                  "taken, and the last checkpoint is from before it: lower --lr, or give --param-dtype "
                                  "fp32 or bf16",
                                  step + 1, result.mean_loss()));
  // torch.nn.utils.clip_grad_norm_'s own formula.
  if (options_.clip_grad_norm > 0) grad_scale *= std::min(1.0, options_.clip_grad_norm / (*result.grad_norm + 1e-6));
  if (options_.before_update) options_.before_update();
  parts_.optimizer.step(lr, grad_scale);
}

data::Batch StepRunner::to_model(const data::Batch& batch) const {
  return to_device(batch, parts_.device, parts_.input_dtype);
}

// The loss is sent for before backward is queued: the host has it while the device still computes, and queues the
// optimizer's step behind.
StepRunner::Loss StepRunner::backward(const data::Batch& batch, bool counts) {
  std::optional<Loss> result;
  parts_.sharded.run([&] {
    models::LossSum loss = parts_.model.loss(batch);
    if (!counts) loss = {loss.sum * 0, 0};
    result = {HostScalar(loss.sum), loss.count};
    (loss_factor_ == 1 ? loss.sum : loss.sum * loss_factor_).backward();
  });
  return *std::move(result);
}

// Every rank has the same sums, so every rank comes to the same conclusion.
void StepRunner::check_finite(const StepResult& result, const std::vector<double>& losses, data::Sampler& sampler,
                              std::int64_t epoch, Range places, std::int64_t step) {
  if (std::isfinite(result.loss_sum)) return;
  const auto bad = std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
  std::string where;
  if (bad != losses.end()) {
    const auto micro = plan_.rank_steps(places, parts_.world.rank())[static_cast<std::size_t>(bad - losses.begin())];
    where = find_nonfinite(sampler, epoch, micro, step);
  }
  throw AgreedError(ExitCode::usage, fmt::format("the loss of step {} is {}{}; the step was not taken, and the last "
                                                 "checkpoint is from before it: lower --lr, or set --clip-grad-norm",
                                                 step + 1, result.mean_loss(), where));
}

// The forward pass of the micro-step again, with a look at what each operator gives.
std::string StepRunner::find_nonfinite(data::Sampler& sampler, std::int64_t epoch, const MicroStep& micro,
                                       std::int64_t step) {
  parts_.sharded.zero_grad();
  const data::Batch batch = to_model(parts_.train_data.epoch_batch(epoch, sampler.samples(epoch, micro.places)));
  at::manual_seed(micro_step_seed(options_.seed, step, micro.number, micro.seed_rank));
  const std::string mine = parts_.sharded.find_nonfinite([&] { parts_.model.loss(batch); });
  const auto all = comm::all_gather_bytes(parts_.world, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      return fmt::format(" (it first appeared in {}{})", all[rank],
                         all.size() > 1 ? fmt::format(", on rank {}", rank) : "");
  return "";
}

}  // namespace shoal::train
