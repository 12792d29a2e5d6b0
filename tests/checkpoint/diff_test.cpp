#include "checkpoint/diff.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/catalog.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::SampleTensor;
using testing::TemporaryDirectory;
using testing::write_sample;

TensorState state_of(const DiffReport& report, const std::string& name) {
  for (const TensorDiff& tensor : report.tensors)
    if (tensor.name == name) return tensor.state;
  throw std::runtime_error(name + " is not in the report");
}

TEST(Diff, RankCountsMakeNoDifference) {
  const TemporaryDirectory directory;
  std::vector<fs::path> paths;
  for (const int ranks : {1, 2, 3, 7, 40})
    paths.push_back(write_sample(directory.path() / std::to_string(ranks), 1, ranks, 4));
  for (const fs::path& b : paths) {
    const DiffReport report = diff(paths[2], b);
    EXPECT_TRUE(report.same_tensors());
    EXPECT_TRUE(report.same_training_state);
    EXPECT_EQ(report.tensors.size(), testing::sample_tensors().size() + 1);  // one has another name, too
  }
}

// Pieces of kChunkBytes that end elsewhere than the shards do.
TEST(Diff, OneElementOfALargeTensor) {
  const std::vector<SampleTensor> tensors{{"model/w", DType::float32, {1031, 2503}, "u"}};
  const TemporaryDirectory directory;
  const fs::path a = write_sample(directory.path() / "a", 1, 3, 4, tensors);
  constexpr std::int64_t kElement = 2'000'003;
  const fs::path b = testing::write_states(directory.path() / "b", 2, 2, [&](int rank) {
    StateDict state = testing::sample_state(tensors, rank, 2, 4);
    const Region& region = state.tensors[0].region;
    if (kElement < region.begin || kElement >= region.begin + region.count) return state;
    const float value = -1e30f;
    std::memcpy(region.data + 4 * (kElement - region.begin), &value, sizeof value);
    return state;
  });
  const DiffReport report = diff(a, b);
  EXPECT_FALSE(report.same_tensors());
  const TensorDiff& found = report.tensors.front();
  EXPECT_EQ(found.state, TensorState::different);
  EXPECT_EQ(found.elements.count, 1);
  EXPECT_EQ(found.elements.first, kElement);
  EXPECT_GE(found.elements.max_absolute, 9e29);
  EXPECT_EQ(report.step_b, 2);
}

TEST(Diff, EveryKind) {
  std::vector<SampleTensor> other = testing::sample_tensors();
  other[1].shape = {8};
  other[4].dtype = DType::float16;
  other[5].name = "model/new";
  const TemporaryDirectory directory;
  const DiffReport report =
      diff(write_sample(directory.path() / "a", 1, 2, 4), write_sample(directory.path() / "b", 1, 3, 4, other));
  EXPECT_EQ(state_of(report, "model/conv1.weight"), TensorState::equal);
  EXPECT_EQ(state_of(report, "model/tied"), TensorState::equal);
  EXPECT_EQ(state_of(report, "model/conv1.bias"), TensorState::other_shape);
  EXPECT_EQ(state_of(report, "model/brain"), TensorState::other_dtype);
  EXPECT_EQ(state_of(report, "model/double"), TensorState::only_in_a);
  EXPECT_EQ(state_of(report, "model/new"), TensorState::only_in_b);
  EXPECT_FALSE(report.same_tensors());
}

TEST(Diff, DamageIsNoDifference) {
  const TemporaryDirectory directory;
  const fs::path a = write_sample(directory.path() / "a", 1, 2, 4), b = write_sample(directory.path() / "b", 1, 2, 4);
  const fs::path shard = b / read_manifest(b).files[1].name;
  int damaged = 0;
  for (std::int64_t at = 0; at < read_manifest(b).files[1].bytes; at += 53) {
    testing::flip_bit(shard, at);
    try {
      EXPECT_TRUE(diff(a, b).same_tensors()) << at;
    } catch (const CheckpointError&) {
      ++damaged;
    }
    testing::flip_bit(shard, at);
  }
  EXPECT_GT(damaged, 10);
}

}  // namespace
}  // namespace shoal::checkpoint
