// Save and restore in a real job; the cases in depth are in restore_test.cpp, on threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/checkpointer.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "support/on_ranks.h"

namespace shoal::checkpoint {
namespace {

// Collective over `world`. A directory that all ranks know of.
std::filesystem::path shared_directory(comm::ProcessGroup& world) {
  const std::string name = fmt::format("shoal_mpi_checkpoint_{}", ::getpid());
  return std::filesystem::temp_directory_path() / comm::broadcast_bytes(world, name);
}

TEST(MpiCheckpoint, RoundTripAndFallBack) {
  testing::on_ranks([](comm::ProcessGroup& world) {
    const std::filesystem::path directory = shared_directory(world);
    const auto tensors = testing::sample_tensors();
    Checkpointer checkpointer(world, {directory, 2, {}});
    for (const int step : {1, 2}) {
      const StateDict state = testing::sample_state(tensors, world.rank(), world.size(), step);
      checkpointer.save(step, state, testing::kTrainingState);
    }
    const auto expect_restored = [&](int step) {
      StateDict state = testing::blank_state(tensors, world.rank(), world.size());
      const auto restored = checkpointer.restore(state, "auto");
      ASSERT_TRUE(restored);
      EXPECT_EQ(restored->step, step);
      EXPECT_TRUE(testing::same_elements(state, testing::sample_state(tensors, world.rank(), world.size(), step)));
    };
    expect_restored(2);
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove(directory / "step_00000002" / "COMMIT");
    world.barrier();
    expect_restored(1);
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove_all(directory);
  });
}

}  // namespace
}  // namespace shoal::checkpoint
