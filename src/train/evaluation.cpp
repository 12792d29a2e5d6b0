#include "train/evaluation.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "core/activity.h"
#include "data/loader.h"
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

// This rank's part of the batch that begins with sample `begin`; empty where there are more ranks than samples.
Range part_at(const TrainParts& parts, std::int64_t begin, std::int64_t batch_size) {
  const Range whole{begin, std::min(batch_size, parts.test_data->size() - begin)};
  return data::part_of(whole, parts.world.rank(), parts.world.size());
}

// Without samples of its own a rank still takes part in the collectives of the forward pass.
data::Loader::NextRequest requests(const TrainParts& parts, std::int64_t batch_size) {
  return [&parts, batch_size, begin = std::int64_t{0}]() mutable -> std::optional<data::BatchRequest> {
    if (begin >= parts.test_data->size()) return std::nullopt;
    const Range mine = part_at(parts, begin, batch_size);
    data::BatchRequest request{.indices = numbers(mine.count > 0 ? mine : Range{begin, 1})};
    begin += batch_size;
    return request;
  };
}

}  // namespace

models::EvalSum evaluate(const TrainParts& parts, std::int64_t batch_size, int prefetch) {
  activity::enter(activity::Operation::validation);
  const at::NoGradGuard no_grad;
  parts.sharded.sync_buffers();
  parts.model.set_training(false);
  models::EvalSum local;
  data::Loader loader(*parts.test_data, requests(parts, batch_size), prefetch, batch_memory(parts.device));
  for (std::int64_t begin = 0; begin < parts.test_data->size(); begin += batch_size) {
    models::EvalSum batch;
    const data::Batch inputs = to_device(*loader.next(), parts.device, parts.input_dtype);
    parts.sharded.run([&] { batch = parts.model.evaluate(inputs); });
    if (part_at(parts, begin, batch_size).count == 0) continue;
    local.loss_sum += batch.loss_sum;
    local.correct += batch.correct;
    local.count += batch.count;
  }
  return sum_over_ranks(parts.world, local);
}

}  // namespace shoal::train
