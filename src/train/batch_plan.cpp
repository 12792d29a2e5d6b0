#include "train/batch_plan.h"

#include <algorithm>

#include "core/check.h"

namespace shoal::train {
namespace {

constexpr std::int64_t kLargestBatch = std::int64_t{1} << 40;  // keeps products within 64 bits

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

BatchPlan plan_global(const BatchOptions& o, int ranks) {
  if (o.batch_size == 0) return {o.global_batch_size, std::max<std::int64_t>(o.accumulate, 1), ranks};
  const BatchPlan plan{o.global_batch_size, divide_up(o.global_batch_size, o.batch_size * ranks), ranks};
  SHOAL_CHECK(o.accumulate == 0 || o.accumulate == plan.micro_steps, OptionError,
              "--accumulate {} contradicts --global-batch-size {} and --batch-size {} on {} ranks, which make {} "
              "micro-steps: leave one of the three out",
              o.accumulate, o.global_batch_size, o.batch_size, ranks, plan.micro_steps);
  return plan;
}

}  // namespace

BatchPlan plan_batches(const BatchOptions& o, int ranks, std::int64_t default_batch_size) {
  for (const std::int64_t value : {o.batch_size, o.global_batch_size, o.accumulate}) {
    SHOAL_CHECK(value <= kLargestBatch / ranks, OptionError,
                "--batch-size, --global-batch-size and --accumulate must be below {}", kLargestBatch / ranks);
  }
  BatchPlan plan;
  if (o.global_batch_size > 0) {
    plan = plan_global(o, ranks);
  } else {
    const std::int64_t batch_size = o.batch_size > 0 ? o.batch_size : default_batch_size;
    const std::int64_t micro_steps = std::max<std::int64_t>(o.accumulate, 1);
    SHOAL_CHECK(micro_steps <= kLargestBatch / ranks / batch_size, OptionError,
                "--batch-size {} times --accumulate {} is too much", batch_size, micro_steps);
    plan = {batch_size * micro_steps * ranks, micro_steps, ranks};
  }
  SHOAL_CHECK(plan.global_batch / plan.micro_steps >= ranks, OptionError,
              "--global-batch-size {} is smaller than {} ranks times {} micro-steps: every rank needs a sample; use "
              "fewer ranks, a smaller --accumulate or a larger --global-batch-size",
              plan.global_batch, ranks, plan.micro_steps);
  return plan;
}

}  // namespace shoal::train
