// Ranks that hold the same elements read each byte once, together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/replicas.h"
#include "checkpoint/sample_state.h"
#include "comm/fake_process_group.h"
#include "core/error.h"
#include "core/file_calls.h"

namespace shoal::checkpoint {
namespace {

using comm::FakeWorld;
using comm::ProcessGroup;
using testing::SampleTensor;
using testing::TemporaryDirectory;

class CountedReads final : public FileCalls {
 public:
  CountedReads() { use_file_calls(this); }
  ~CountedReads() override { use_file_calls(nullptr); }
  ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset) override {
    const ssize_t got = FileCalls::pread(descriptor, data, bytes, offset);
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    if (got > 0 && std::filesystem::read_symlink(link).parent_path().filename() == "shards") bytes_ += got;
    return got;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::atomic<std::int64_t> bytes_ = 0;
};

// A tensor of more than one piece, and small ones; about 6 MiB.
const std::vector<SampleTensor> kTensors{{"model/large", DType::float32, {1031, 1003}, "u"},
                                         {"model/small", DType::float32, {7}, "u"},
                                         {"model/whole", DType::int64, {}, ""},
                                         {"optimizer/exp_avg/large", DType::bfloat16, {1031, 1003}, "m"}};

std::int64_t bytes_of_tensors() {
  std::int64_t bytes = 0;
  for (const ShardedTensor& tensor : testing::blank_state(kTensors, 0, 1).tensors)
    bytes += tensor.spec.numel() * size_of(tensor.spec.dtype);
  return bytes;
}

void only_the_first_saves(StateDict& state, bool first) {
  for (ShardedTensor& tensor : state.tensors) tensor.saves = tensor.saves && first;
}

// On `shards` ranks a replica; returns the bytes read from shard files, by all ranks.
std::int64_t restore_on_replicas(const std::filesystem::path& directory, int shards, int replicas, int salt) {
  const CountedReads reads;
  FakeWorld(shards * replicas).run([&](ProcessGroup& world) {
    const int shard = world.rank() % shards;
    StateDict state = testing::blank_state(kTensors, shard, shards);
    only_the_first_saves(state, world.rank() < shards);
    CheckpointerOptions options;
    options.directory = directory;
    EXPECT_TRUE(Checkpointer(world, options).restore(state, "auto"));
    EXPECT_TRUE(testing::same_elements(state, testing::sample_state(kTensors, shard, shards, salt)));
  });
  return reads.bytes();
}

TEST(Replicas, EachByteIsReadOncePerReplicateGroup) {
  const TemporaryDirectory directory;
  testing::write_sample(directory.path(), 1, 2, 5, kTensors);
  const std::int64_t once = bytes_of_tensors();
  const std::int64_t tables = 4096;  // read by some ranks, and again by those that open the file
  for (const auto& [shards, replicas] : {std::pair(1, 1), {1, 2}, {1, 3}, {1, 8}, {2, 1}, {2, 2}, {2, 5}}) {
    // What no rule cuts is held by all ranks, and read by each shard group.
    const std::int64_t bytes = restore_on_replicas(directory.path(), shards, replicas, 5);
    EXPECT_GE(bytes, once) << shards << " x " << replicas;
    EXPECT_LE(bytes, once + tables) << shards << " x " << replicas;
  }
}

TEST(Replicas, RegionsThatAreCutElsewhere) {
  const TemporaryDirectory directory;
  testing::write_sample(directory.path(), 1, 5, 9, kTensors);
  for (const auto& [shards, replicas] : {std::pair(3, 2), {2, 3}, {4, 2}, {1, 5}})
    restore_on_replicas(directory.path(), shards, replicas, 9);
}

TEST(Replicas, DamageThatOneOfThemReadsIsAnErrorOnAll) {
  const TemporaryDirectory directory;
  const auto path = testing::write_sample(directory.path(), 1, 1, 5, kTensors);
  const auto shard = path / open_checkpoint(path).files[0].name;
  testing::flip_bit(shard, static_cast<std::int64_t>(std::filesystem::file_size(shard)) / 2);
  std::atomic<int> errors = 0;
  FakeWorld(3).run([&](ProcessGroup& world) {
    StateDict state = testing::blank_state(kTensors, 0, 1);
    only_the_first_saves(state, world.rank() == 0);
    CheckpointerOptions options;
    options.directory = directory.path();
    try {
      Checkpointer(world, options).restore(state, path.string());
    } catch (const CheckpointError& error) {
      ++errors;
      EXPECT_NE(std::string(error.what()).find("do not match their checksum"), std::string::npos) << error.what();
    }
  });
  EXPECT_EQ(errors, 3);
}

TEST(Replicas, RunsOfAboutAsManyBytes) {
  FakeWorld(3).run([](ProcessGroup& world) {
    const Replicas replicas(world, {});
    ASSERT_EQ(replicas.size(), 3u);
    EXPECT_EQ(replicas.index(), static_cast<std::size_t>(world.rank()));
    EXPECT_EQ(replicas.divide({}), (std::vector<std::size_t>{0, 0, 0, 0}));
    EXPECT_EQ(replicas.divide({1, 1, 1}), (std::vector<std::size_t>{0, 1, 2, 3}));
    EXPECT_EQ(replicas.divide({10, 1, 1, 1, 8, 9}), (std::vector<std::size_t>{0, 1, 5, 6}));
    const auto one = replicas.divide({100});
    EXPECT_EQ(one.front(), 0u);
    EXPECT_EQ(one.back(), 1u);
  });
}

}  // namespace
}  // namespace shoal::checkpoint
