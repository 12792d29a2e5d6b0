// The plan of a rank's memory is exact, and what does not fit is told with what would help.
#include "fsdp/memory_plan.h"

#include <gtest/gtest.h>

#include "fsdp/harness.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

fsdp::MemoryPlan plan_in_gib(std::int64_t masters, std::int64_t states, std::int64_t compute, std::int64_t buffers,
                             std::int64_t total) {
  return {.masters = masters * kGiB,
          .gradients = masters * kGiB,
          .optimizer_states = states * kGiB,
          .compute_shards = compute * kGiB,
          .unit_buffers = buffers * kGiB,
          .device_total = total * kGiB,
          .shard_size = 4,
          .world_size = 4};
}

void expect_words(const std::string& text, const std::vector<std::string>& words,
                  const std::vector<std::string>& absent = {}) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  for (const std::string& word : absent) EXPECT_EQ(text.find(word), std::string::npos) << word << " in: " << text;
}

TEST(MemoryPlan, WhatIsLeftIsForActivations) {
  const fsdp::MemoryPlan plan = plan_in_gib(8, 16, 4, 3, 80);
  EXPECT_EQ(plan.left_for_activations(), 41 * kGiB);
  const std::string text = fsdp::explain_out_of_memory(plan, "CUDA out of memory. Tried to allocate 2.00 GiB.\nat …");
  expect_words(text,
               {"CUDA out of memory. Tried to allocate 2.00 GiB.;", "masters 8.0, compute shards 4.0, unit buffers 3.0",
                "left for activations 41.0 of 80.0 GiB", "the activations of a micro-batch did not fit",
                "smaller --batch-size", "--activation-checkpoint full", "--activation-offload",
                "--offload optimizer, which frees 32.0 GiB", "more ranks"},
               {"at …", "--strategy"});
}

TEST(MemoryPlan, WhatIsOnAlreadyIsNotRecommended) {
  fsdp::MemoryPlan plan = plan_in_gib(0, 0, 4, 3, 80);
  plan.recomputes_all = plan.activation_offload = true;
  plan.offload = fsdp::Offload::optimizer;
  plan.shard_size = 2;
  plan.host = 64 * kGiB;
  expect_words(fsdp::explain_out_of_memory(plan, "x"),
               {"on the host 64.0 GiB", "--offload params, which frees 4.0 GiB", "among all 4 ranks"},
               {"--activation-checkpoint", "--activation-offload", "--offload optimizer", "or more ranks"});
}

TEST(MemoryPlan, ThePartThatDoesNotFitIsNamed) {
  const fsdp::MemoryPlan plan = plan_in_gib(20, 40, 10, 5, 80);  // 35 with buffers, 75 with states, 95 with gradients
  expect_words(fsdp::explain_out_of_memory(plan, "x"),
               {"missing 15.0 of 80.0 GiB", "; gradients did not fit", "--offload optimizer", "5 ranks or more"},
               {"--batch-size", "--strategy"});
  fsdp::MemoryPlan whole = plan_in_gib(50, 100, 25, 0, 80);
  whole.shard_size = 1;
  expect_words(fsdp::explain_out_of_memory(whole, "x"), {"; optimizer states did not fit", "--strategy full_shard"},
               {"ranks or more"});
  const fsdp::MemoryPlan large_units = plan_in_gib(1, 2, 1, 90, 80);
  expect_words(fsdp::explain_out_of_memory(large_units, "x"), {"; unit buffers did not fit", "smaller units (--wrap)"},
               {"--offload", "ranks or more"});
}

TEST(MemoryPlan, WholeGradientsNeedNotBeKept) {
  fsdp::MemoryPlan plan = plan_in_gib(8, 16, 4, 3, 80);
  plan.kept_gradients = 24 * kGiB;
  const std::string remedy = "--accumulate-mode defer, which frees 24.0 GiB";
  expect_words(fsdp::explain_out_of_memory(plan, "x"), {"whole gradients 24.0", "left for activations 17.0", remedy});
  plan.kept_gradients = 64 * kGiB;
  expect_words(fsdp::explain_out_of_memory(plan, "x"), {"; whole gradients did not fit", "--accumulate-mode defer"});
}

std::int64_t padded(std::int64_t numel, int ranks) {
  const std::int64_t step = 16 * static_cast<std::int64_t>(ranks);
  return (numel + step - 1) / step * step;
}

// The Blocks and the root of make_mlp().
TEST(MemoryPlan, OfAModuleIsExact) {
  on_ranks([](comm::ProcessGroup& world) {
    const Sharded s = shard(world, make_mlp, "class:Block",
                            {.mixed_precision = {.param_dtype = at::kFloat, .reduce_dtype = at::kFloat}});
    const fsdp::MemoryPlan plan = fsdp::plan_of(*s.fsdp, 2, kGiB);
    const int ranks = world.size();
    std::int64_t block = 0, root = 0;
    for (const auto& item : s.model.module->named_parameters())
      (item.key().starts_with("blocks.") ? block : root) += item.value().numel();
    const std::int64_t block_padded = padded(block / 3, ranks), root_padded = padded(root, ranks);
    const std::int64_t shard = (3 * block_padded + root_padded) / ranks;
    EXPECT_EQ(plan.masters, 8 * shard);  // float64 as the module is
    EXPECT_EQ(plan.gradients, 8 * shard);
    EXPECT_EQ(plan.optimizer_states, 2 * 8 * shard);
    EXPECT_EQ(plan.compute_shards, ranks > 1 ? 0 : 4 * shard);  // of several ranks, each rounds as it gathers
    // Parameters: one Block in use and one ahead; gradients: of two that are reduced and one that is collected. Each
    // buffer begins on a boundary of 256 bytes.
    const std::int64_t block_buffer = (4 * block_padded + 255) / 256 * 256,
                       root_buffer = (4 * root_padded + 255) / 256 * 256;
    EXPECT_EQ(plan.unit_buffers, ranks > 1 ? 5 * block_buffer + 2 * root_buffer : 0);
    EXPECT_EQ(plan.host, 0);
    EXPECT_EQ(plan.shard_size, ranks);
  });
}

}  // namespace
}  // namespace shoal::testing
