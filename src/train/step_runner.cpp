#include "train/step_runner.h"

#include <ATen/Context.h>
#include <torch/torch.h>

#include <array>
#include <cmath>

#include "train/agreement.h"
#include "train/device.h"
#include "train/random_seed.h"

namespace shoal::train {
namespace {

struct LocalSum {
  double loss = 0;
  std::int64_t count = 0;
};

// One message a step carries the sums and the wish to stop.
StepResult sum_over_ranks(comm::ProcessGroup& world, const LocalSum& local, bool stop_asked) {
  std::array<double, 3> sums{local.loss, static_cast<double>(local.count), stop_asked ? 1.0 : 0.0};
  world.set_activity("sum of the step's losses");
  world.all_reduce(sums.data(), sums.size(), DType::float64, comm::ReduceOp::sum)->wait();
  StepResult result;
  result.loss_sum = sums[0];
  result.count = static_cast<std::int64_t>(sums[1]);
  result.stop_asked = sums[2] > 0;
  return result;
}

// Every rank has the same sum, so every rank throws.
void check_finite(const StepResult& result, std::int64_t step) {
  if (std::isfinite(result.loss_sum)) return;
  throw AgreedError(ExitCode::usage, fmt::format("the loss of step {} is {}; the step was not taken, and the last "
                                                 "checkpoint is from before it: lower --lr, or set --clip-grad-norm",
                                                 step + 1, result.mean_loss()));
}

}  // namespace

StepResult StepRunner::run(data::Sampler& sampler, std::int64_t epoch, Range places, std::int64_t step, double lr,
                           bool stop_asked) {
  const int rank = parts_.world.rank(), ranks = parts_.world.size();
  const std::int64_t micro_steps = plan_.micro_steps_for(places.count);
  LocalSum local;
  parts_.model.module()->train();
  for (std::int64_t micro = 0; micro < micro_steps; ++micro) {
    at::manual_seed(micro_step_seed(seed_, step, micro, rank));
    const Range mine = data::part_of(data::part_of(places, micro, micro_steps), rank, ranks);
    // A rank without samples goes through the motions with one of somebody else's, so that it takes part in the
    // collectives; its loss is multiplied by zero.
    const bool counts = mine.count > 0;
    const models::LossSum loss = backward(sampler.samples(epoch, counts ? mine : Range{places.begin, 1}), counts);
    local.loss += loss.sum.item<double>();
    local.count += loss.count;
  }
  StepResult result = sum_over_ranks(parts_.world, local, stop_asked);
  result.samples = places.count;
  check_finite(result, step);
  double grad_scale = 1.0 / static_cast<double>(result.count);
  if (clip_grad_norm_ > 0) {
    result.grad_norm = parts_.sharded.grad_norm(grad_scale);
    // torch.nn.utils.clip_grad_norm_'s own formula.
    grad_scale *= std::min(1.0, clip_grad_norm_ / (result.grad_norm + 1e-6));
  }
  parts_.optimizer.step(lr, grad_scale);
  return result;
}

models::LossSum StepRunner::backward(std::span<const std::int64_t> samples, bool counts) {
  const data::Batch batch = to_device(parts_.train_data.batch(samples), parts_.device);
  models::LossSum loss;
  parts_.sharded.run([&] {
    loss = parts_.model.loss(batch);
    if (!counts) loss = {loss.sum * 0, 0};
    loss.sum.backward();
    loss.sum = loss.sum.detach();
  });
  return loss;
}

}  // namespace shoal::train
