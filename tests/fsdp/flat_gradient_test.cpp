// Sums of gradients by themselves: their order, their precision, where they are kept.
#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "fsdp/flat_gradient.h"
#include "fsdp/harness.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

at::Tensor term(fsdp::BufferPool& pool, float value) {
  at::Tensor t = pool.acquire(3, at::kFloat);
  t.fill_(value);
  return t;
}

TEST(GradientSum, ATreeOfSevenTerms) {
  fsdp::BufferPool pool(at::kCPU);
  // 2^-24 is half of what 1 can be told from: the order decides which of them is seen.
  const std::vector<float> terms{1.0F, 0x1p-24F, 0x1p-24F, 0x1p-24F, 1.0F, 0x1p-24F, 0x1p-23F};
  fsdp::GradientSum tree(pool, at::kFloat, true), line(pool, at::kFloat, false);
  for (const float t : terms) {
    tree.add(term(pool, t));
    line.add(term(pool, t));
  }
  const float left = (terms[0] + terms[1]) + (terms[2] + terms[3]), right = (terms[4] + terms[5]) + terms[6];
  EXPECT_EQ(tree.value()[0].item<float>(), left + right);
  float in_order = 0;
  for (const float t : terms) in_order += t;
  EXPECT_EQ(line.value()[2].item<float>(), in_order);
  ASSERT_NE(left + right, in_order);
  EXPECT_THROW(tree.add(term(pool, 1)), InternalError);
  tree.clear();
  EXPECT_FALSE(tree.value().defined());
  tree.add(term(pool, 5));
  EXPECT_EQ(tree.value()[1].item<float>(), 5.0F);
}

TEST(GradientSum, KeepsItsOwnPrecisionAndGivesBuffersBack) {
  fsdp::BufferPool pool(at::kCPU);
  fsdp::GradientSum sum(pool, at::kFloat, false);
  const auto add = [&] {
    at::Tensor t = pool.acquire(64, at::kBFloat16);
    t.fill_(1.0 + 0x1p-7);
    sum.add(std::move(t));
  };
  add();
  add();
  add();
  EXPECT_EQ(sum.value().scalar_type(), at::kFloat);
  EXPECT_EQ(sum.value()[63].item<float>(), 3.0F + 3 * 0x1p-7F);
  sum.clear();
  const std::int64_t bytes = pool.bytes();
  for (int i = 0; i < 10; ++i) add();
  sum.clear();
  EXPECT_EQ(pool.bytes(), bytes);
}

// What offload does beside a GPU: shards of gradients are copied to another place and added up there.
TEST(FlatGradient, ShardsMayBeKeptElsewhereThanWholeGradients) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const auto& [replicas, reduced] : std::vector<std::pair<bool, at::ScalarType>>{
             {false, at::kBFloat16}, {true, at::kBFloat16}, {false, at::kFloat}, {true, at::kFloat}}) {
      comm::DeviceMesh mesh(world, world, replicas ? 1 : world.size());
      const ShardLayout layout({3, 40}, mesh.shard_size(), 16);
      fsdp::BufferPool whole(at::kCPU), device(at::kCPU), shards(at::kCPU);
      fsdp::OffloadCopies copies(at::kCPU);
      fsdp::FlatGradient gradient(layout, {at::kFloat, at::kBFloat16, at::kFloat, reduced}, mesh,
                                  {whole, whole, device, shards, &copies}, {.scatters = !replicas});
      const auto reduce_once = [&](float value) {
        gradient.expect();
        gradient.collect(1, at::full({5, 8}, value, at::kBFloat16));
        EXPECT_EQ(gradient.missing(), 1U);
        gradient.start_reduce();
        gradient.finish_reduce(false);
      };
      reduce_once(1.0F);
      reduce_once(0x1p-8F);  // their sum has too many digits for bfloat16
      const at::Tensor sum = gradient.value();
      EXPECT_EQ(sum.scalar_type(), at::kFloat);
      const TensorSlice mine = layout.slice(1, mesh.shard().rank());
      const float expected = (1.0F + 0x1p-8F) * static_cast<float>(world.size());
      EXPECT_TRUE(sum.narrow(0, mine.shard_begin, mine.count).eq(expected).all().item<bool>());
      EXPECT_EQ(sum.sum().item<float>(), expected * static_cast<float>(mine.count));
      const std::int64_t bytes = whole.bytes() + device.bytes() + shards.bytes();
      gradient.drop();
      EXPECT_FALSE(gradient.value().defined());
      reduce_once(3.0F);
      gradient.drop();
      EXPECT_EQ(whole.bytes() + device.bytes() + shards.bytes(), bytes);
    }
  });
}

}  // namespace
}  // namespace shoal::testing
