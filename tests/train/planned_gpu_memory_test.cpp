// What a plan says beside what the allocators of GPUs had at their peak, when runs were measured there.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <utility>

#include "fsdp/deferred_init.h"
#include "fsdp/memory_plan.h"
#include "train/activations.h"

namespace shoal::testing {
namespace {

using train::TrainOptions;

// What the allocators of two H200 had at their peak, in GiB: `none`, `optimizer` and `params` are ways to offload.
struct OnGpus {
  std::string model, checkpoint, strategy, dtype;
  double none = 0, optimizer = 0, params = 0;  // 0: not measured
};

struct GpuShape {
  std::int64_t vocabulary, batch, length;
};

GpuShape shape_on_gpus(const std::string& model) {
  if (model == "llama-8b") return {128256, 1, 4096};
  return {50304, model == "gpt2-124m" ? 32 : 8, 1024};
}

fsdp::MemoryPlan plan_on_gpus(int gpus, const models::ModelEntry& entry, const TrainOptions& options) {
  fsdp::DeferredInit deferred;
  std::unique_ptr<models::Model> model;
  deferred.record([&] { model = entry.make(options.model.shape); });
  const int shard = fsdp::shard_group_size(fsdp::parse_strategy(options.sharding.strategy), gpus, gpus, 1);
  const fsdp::MeshShape mesh{.shard = shard, .replicate = gpus / shard};
  const auto how = train::fully_shard_options(options.sharding, false);
  const auto units =
      fsdp::unit_sizes(*model->module(), *fsdp::parse_wrap_policy(options.sharding.wrap), mesh, how, /*on_cpu=*/false);
  return fsdp::plan_of(units, mesh, how, /*optimizer_states=*/2, 0);
}

double planned_on_gpus(int gpus, const OnGpus& run, const std::string& offload, std::int64_t layers = 0) {
  const models::ModelEntry& entry = models::find_model(run.model);
  const GpuShape shape = shape_on_gpus(run.model);
  TrainOptions options = train::defaults_for(entry);
  options.model.name = run.model;
  models::ModelOptions wanted{.vocab_size = shape.vocabulary, .untied_head = true};
  wanted.layers = layers;
  options.model.shape = models::complete(entry, wanted);
  options.data.sequence_length = shape.length;
  options.sharding.strategy = run.strategy;
  options.sharding.param_dtype = run.dtype;
  options.sharding.offload = offload;
  options.sharding.activation_checkpoint = run.checkpoint;
  const auto activations = train::plan_activations(entry, options, shape.batch, /*on_gpu=*/true, nullptr);
  EXPECT_EQ(activations.unknown, "");
  EXPECT_LT(activations.kept, activations.peak);
  const fsdp::MemoryPlan plan = plan_on_gpus(gpus, entry, options);
  return static_cast<double>(plan.fixed() + activations.on_top(plan, /*on_gpu=*/true));
}

// Of tests/gpu/plan.py, on 2026-11-29.
TEST(PlannedMemory, OfGpusAsMeasuredThere) {
  constexpr double kGiB = 1 << 30;
  for (const OnGpus& run : {OnGpus{"gpt2-124m", "none", "full_shard", "fp32", 15.78, 15.23, 14.92},
                            OnGpus{"gpt2-124m", "none", "full_shard", "bf16", 8.69, 7.98, 7.83},
                            OnGpus{"gpt2-124m", "none", "shard_grad_op", "bf16", 8.90, 8.20, 8.05},
                            OnGpus{"gpt2-124m", "none", "no_shard", "fp32", 16.45, 15.36, 15.34},
                            OnGpus{"gpt2-124m", "none", "no_shard", "bf16", 9.68, 7.97, 7.96},
                            OnGpus{"gpt2-124m", "none", "hybrid_shard", "bf16", 9.68, 7.97, 7.74},
                            OnGpus{"gpt2-1.5b", "none", "full_shard", "fp32", 39.06, 33.11, 30.06},
                            OnGpus{"gpt2-1.5b", "none", "full_shard", "bf16", 24.85, 17.37, 15.84},
                            OnGpus{"gpt2-1.5b", "none", "no_shard", "fp32", 47.48, 35.51, 35.47},
                            OnGpus{"gpt2-1.5b", "none", "no_shard", "bf16", 36.59, 18.48, 18.48},
                            OnGpus{"llama-8b", "full", "full_shard", "bf16", 63.65, 15.73, 8.25},
                            OnGpus{"llama-8b", "full", "shard_grad_op", "bf16", 77.22},
                            OnGpus{"llama-8b", "selective", "full_shard", "bf16", 63.65}}) {
    const std::array<std::pair<const char*, double>, 3> measured{
        {{"none", run.none}, {"optimizer", run.optimizer}, {"params", run.params}}};
    for (const auto& [offload, peak] : measured) {
      if (peak == 0) continue;
      EXPECT_NEAR(peak * kGiB / planned_on_gpus(2, run, offload), 1, 0.03)
          << run.model << ", " << run.strategy << ", " << run.dtype << ", checkpoint " << run.checkpoint << ", offload "
          << offload;
    }
  }
}

// The kernel for fp32 has no keys that queries share. One H200.
TEST(PlannedMemory, OfSharedKeysInFp32) {
  constexpr double kMiB = 1 << 20;
  const OnGpus recomputed{"llama-8b", "full", "full_shard", "fp32"}, kept{"llama-8b", "none", "full_shard", "fp32"};
  EXPECT_NEAR(58039 * kMiB / planned_on_gpus(1, recomputed, "none", 12), 1, 0.03);
  EXPECT_NEAR(60461 * kMiB / planned_on_gpus(1, kept, "none", 12), 1, 0.03);
}

}  // namespace
}  // namespace shoal::testing
