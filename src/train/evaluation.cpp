#include "train/evaluation.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/activity.h"
#include "data/sampler.h"
#include "train/device.h"

namespace shoal::train {
namespace {

std::vector<std::int64_t> numbers(Range range) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(range.count));
  std::iota(all.begin(), all.end(), range.begin);
  return all;
}

models::EvalSum sum_over_ranks(comm::ProcessGroup& world, const models::EvalSum& local) {
  std::array<double, 3> sums{local.loss_sum, static_cast<double>(local.correct), static_cast<double>(local.count)};
  world.set_activity("sum of the test results");
  world.all_reduce(sums.data(), sums.size(), DType::float64, comm::ReduceOp::sum)->wait();
  return {sums[0], static_cast<std::int64_t>(sums[1]), static_cast<std::int64_t>(sums[2])};
}

}  // namespace

models::EvalSum evaluate(const TrainParts& parts, std::int64_t batch_size) {
  activity::enter(activity::Operation::validation);
  const at::NoGradGuard no_grad;
  parts.sharded.sync_buffers();
  parts.model.set_training(false);
  const data::Dataset& samples = *parts.test_data;
  models::EvalSum local;
  for (std::int64_t begin = 0; begin < samples.size(); begin += batch_size) {
    const Range whole{begin, std::min(batch_size, samples.size() - begin)};
    const Range mine = data::part_of(whole, parts.world.rank(), parts.world.size());
    // Without samples of its own a rank still takes part in the collectives of the forward pass.
    const std::vector<std::int64_t> indices = numbers(mine.count > 0 ? mine : Range{begin, 1});
    models::EvalSum batch;
    const data::Batch inputs = to_device(samples.batch(indices), parts.device, parts.input_dtype);
    parts.sharded.run([&] { batch = parts.model.evaluate(inputs); });
    if (mine.count == 0) continue;
    local.loss_sum += batch.loss_sum;
    local.correct += batch.correct;
    local.count += batch.count;
  }
  return sum_over_ranks(parts.world, local);
}

}  // namespace shoal::train
