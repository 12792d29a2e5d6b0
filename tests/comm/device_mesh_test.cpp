#include "comm/device_mesh.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/on_ranks.h"

namespace shoal::comm {
namespace {

TEST(DeviceMesh, EveryDivisorGivesAGridOfTheRightRanks) {
  testing::on_ranks([](ProcessGroup& world) {
    for (int shard = 1; shard <= world.size(); ++shard) {
      if (world.size() % shard != 0) continue;
      const DeviceMesh mesh(world, world, shard);
      EXPECT_EQ(mesh.shard_size(), shard);
      EXPECT_EQ(mesh.replicate_size(), world.size() / shard);
      EXPECT_EQ(mesh.replicate().rank() * shard + mesh.shard().rank(), world.rank());
      // The ranks of a row sum to what arithmetic says, and so do those of a column.
      const std::int64_t row = world.rank() / shard, column = world.rank() % shard;
      EXPECT_EQ(all_reduce(mesh.shard(), std::int64_t{world.rank()}, ReduceOp::sum),
                row * shard * shard + shard * (shard - 1) / 2);
      const std::int64_t rows = world.size() / shard;
      EXPECT_EQ(all_reduce(mesh.replicate(), std::int64_t{world.rank()}, ReduceOp::sum),
                rows * column + shard * rows * (rows - 1) / 2);
    }
  });
}

TEST(DeviceMesh, DescribesItsGroupsByName) {
  testing::on_ranks([](ProcessGroup& world) {
    const std::vector<std::string> lines = DeviceMesh(world, world, 1).describe();
    const std::string one = fmt::format("{}, 1 rank", world.backend());
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0], "shard: " + one);
    EXPECT_EQ(lines[1], "reduce: " + one);
    EXPECT_EQ(lines[2], "replicate: " + world.describe());
  });
}

TEST(DeviceMesh, AShardSizeThatDoesNotDivideIsRefusedByName) {
  testing::on_ranks([](ProcessGroup& world) {
    try {
      const DeviceMesh mesh(world, world, world.size() + 1);
      FAIL() << "no error";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("--shard-size"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace shoal::comm
