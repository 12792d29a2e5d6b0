// Initial weights in a real job; the cases in depth are in weights_load_test.cpp, on threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "checkpoint/load_weights.h"
#include "checkpoint/weights_samples.h"
#include "core/error.h"
#include "support/on_ranks.h"

namespace shoal::checkpoint {
namespace {

TEST(MpiWeights, EveryRankReadsOrRankZero) {
  testing::on_ranks([](comm::ProcessGroup& world) {
    const std::vector<testing::SampleTensor> tensors{{"model/w", DType::float32, {1031, 1201}, "u"},
                                                     {"model/b", DType::bfloat16, {17}, "v"}};
    const std::string name = comm::broadcast_bytes(world, fmt::format("shoal_mpi_weights_{}", ::getpid()));
    const std::filesystem::path path = std::filesystem::temp_directory_path() / name;
    if (world.rank() == 0) {
      const std::string bytes = testing::safetensors_bytes(
          {testing::file_tensor("w", DType::float32, {1031, 1201}), testing::file_tensor("b", DType::bfloat16, {17})});
      std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    world.barrier();
    const StateDict expected = testing::sample_state(tensors, world.rank(), world.size(), 1);
    for (const bool rank0_reads : {false, true}) {
      StateDict state = testing::blank_state(tensors, world.rank(), world.size());
      const LoadWeightsReport report = load_weights(world, path, state, {rank0_reads});
      EXPECT_TRUE(testing::same_elements(state, expected)) << report.text();
      EXPECT_EQ(report.bytes_read, 1031 * 1201 * 4 + 17 * 2);
    }
    world.barrier();
    if (world.rank() == 0) std::filesystem::remove(path);
    world.barrier();
    StateDict state = testing::blank_state(tensors, world.rank(), world.size());
    EXPECT_THROW(load_weights(world, path, state), IoError);
    EXPECT_THROW(load_weights(world, path, state, {true}), IoError);
  });
}

}  // namespace
}  // namespace shoal::checkpoint
