#include "shard/state_dict.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(TensorSpec, Numel) {
  EXPECT_EQ((TensorSpec{"scalar", DType::float32, {}}.numel()), 1);
  EXPECT_EQ((TensorSpec{"matrix", DType::float32, {128, 9216}}.numel()), 128 * 9216);
  EXPECT_EQ((TensorSpec{"empty", DType::float32, {3, 0, 5}}.numel()), 0);
  EXPECT_EQ((TensorSpec{"big", DType::float32, {1 << 20, 1 << 20}}.numel()), std::int64_t{1} << 40);
}

TEST(StateDict, AppendKeepsOrderAndMemory) {
  auto memory = std::make_shared<int>(5);
  const std::weak_ptr<int> alive = memory;
  StateDict all, more;
  all.tensors.push_back({.spec = {"model/a", DType::float32, {2}}});
  more.tensors.push_back({.spec = {"optimizer/m/a", DType::float32, {2}}});
  more.aliases.emplace_back("model/b", "model/a");
  more.owned.push_back(std::move(memory));
  all.append(std::move(more));
  ASSERT_EQ(all.tensors.size(), 2u);
  EXPECT_EQ(all.tensors[0].spec.name, "model/a");
  EXPECT_EQ(all.tensors[1].spec.name, "optimizer/m/a");
  ASSERT_EQ(all.aliases.size(), 1u);
  EXPECT_EQ(all.aliases[0].first, "model/b");
  EXPECT_FALSE(alive.expired());
}

}  // namespace
}  // namespace shoal
