#include "train/batch_plan.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "data/sampler.h"

namespace shoal::train {
namespace {

constexpr std::int64_t kLargestBatch = std::int64_t{1} << 40;  // keeps products within 64 bits

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

BatchPlan plan_global(const BatchOptions& o, int ranks) {
  if (o.batch_size == 0) return {o.global_batch_size, std::max<std::int64_t>(o.accumulate, 1), ranks, 0};
  const BatchPlan plan{o.global_batch_size, divide_up(o.global_batch_size, o.batch_size * ranks), ranks, 0};
  SHOAL_CHECK(o.accumulate == 0 || o.accumulate == plan.micro_steps, OptionError,
              "--accumulate {} contradicts --global-batch-size {} and --batch-size {} on {} ranks, which make {} "
              "micro-steps: leave one of the three out",
              o.accumulate, o.global_batch_size, o.batch_size, ranks, plan.micro_steps);
  return plan;
}

// Where ranks have one number of micro-batches each, sums over them are the same tree at any power of two of ranks.
BatchPlan plan_fixed(const BatchOptions& o, int ranks, std::int64_t default_batch_size) {
  SHOAL_CHECK((ranks & (ranks - 1)) == 0, OptionError,
              "--deterministic sums over ranks in a binary tree: the number of ranks must be a power of two, not {}",
              ranks);
  BatchPlan plan{.ranks = ranks, .fixed_size = o.batch_size > 0 ? o.batch_size : default_batch_size};
  const std::int64_t a_micro_step = plan.fixed_size * ranks;
  plan.global_batch =
      o.global_batch_size > 0 ? o.global_batch_size : a_micro_step * std::max<std::int64_t>(o.accumulate, 1);
  plan.micro_steps = divide_up(plan.global_batch, a_micro_step);
  SHOAL_CHECK(o.accumulate == 0 || o.accumulate == plan.micro_steps, OptionError,
              "--accumulate {} contradicts --global-batch-size {} with --deterministic and micro-batches of {} on {} "
              "ranks, which make {} micro-steps: leave --accumulate out",
              o.accumulate, o.global_batch_size, plan.fixed_size, ranks, plan.micro_steps);
  return plan;
}

}  // namespace

std::int64_t BatchPlan::micro_batch() const {
  return fixed_size > 0 ? fixed_size * ranks : divide_up(global_batch, micro_steps);
}

std::int64_t BatchPlan::rank_batch() const { return fixed_size > 0 ? fixed_size : divide_up(micro_batch(), ranks); }

std::int64_t BatchPlan::micro_steps_for(std::int64_t samples) const {
  return samples == global_batch ? micro_steps : divide_up(samples, micro_batch());
}

std::vector<MicroStep> BatchPlan::rank_steps(Range places, int rank) const {
  std::vector<MicroStep> steps;
  const std::int64_t count = micro_steps_for(places.count);
  for (std::int64_t m = 0; m < count; ++m) {
    MicroStep step{.places = {}, .counts = true, .number = m, .seed_rank = rank};
    if (fixed_size > 0) {
      step.number = m * ranks + rank;
      step.seed_rank = 0;
      const std::int64_t begin = std::min(step.number * fixed_size, places.count);
      step.places = {places.begin + begin, std::min(fixed_size, places.count - begin)};
    } else {
      step.places = data::part_of(data::part_of(places, m, count), rank, ranks);
    }
    step.counts = step.places.count > 0;
    if (!step.counts) step.places = {places.begin, 1};
    steps.push_back(step);
  }
  return steps;
}

BatchPlan plan_batches(const BatchOptions& o, int ranks, std::int64_t default_batch_size) {
  for (const std::int64_t value : {o.batch_size, o.global_batch_size, o.accumulate}) {
    SHOAL_CHECK(value <= kLargestBatch / ranks, OptionError,
                "--batch-size, --global-batch-size and --accumulate must be below {}", kLargestBatch / ranks);
  }
  BatchPlan plan;
  if (o.deterministic) return plan_fixed(o, ranks, default_batch_size);
  if (o.global_batch_size > 0) {
    plan = plan_global(o, ranks);
  } else {
    const std::int64_t batch_size = o.batch_size > 0 ? o.batch_size : default_batch_size;
    const std::int64_t micro_steps = std::max<std::int64_t>(o.accumulate, 1);
    SHOAL_CHECK(micro_steps <= kLargestBatch / ranks / batch_size, OptionError,
                "--batch-size {} times --accumulate {} is too much", batch_size, micro_steps);
    plan = {batch_size * micro_steps * ranks, micro_steps, ranks, 0};
  }
  SHOAL_CHECK(plan.global_batch / plan.micro_steps >= ranks, OptionError,
              "--global-batch-size {} is smaller than {} ranks times {} micro-steps: every rank needs a sample; use "
              "fewer ranks, a smaller --accumulate or a larger --global-batch-size",
              plan.global_batch, ranks, plan.micro_steps);
  return plan;
}

std::int64_t total_steps(const TrainOptions& options, const BatchPlan& plan, std::int64_t samples) {
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  const std::int64_t of_an_epoch = divide_up(samples, plan.global_batch), epochs = options.run.epochs;
  const std::int64_t of_epochs = epochs > kNoLimit / of_an_epoch ? kNoLimit : epochs * of_an_epoch;
  const std::int64_t total = std::min(options.run.max_steps > 0 ? options.run.max_steps : kNoLimit, of_epochs);
  SHOAL_CHECK(options.optimizer.warmup <= total, OptionError, "--warmup {} is longer than the run, which has {} steps",
              options.optimizer.warmup, total);
  return total;
}

}  // namespace shoal::train
