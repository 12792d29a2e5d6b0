#include "checkpoint/reshard.h"

#include <gtest/gtest.h>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/diff.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/verify.h"
#include "comm/fake_process_group.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using comm::FakeWorld;
using comm::ProcessGroup;
using testing::SampleTensor;
using testing::TemporaryDirectory;
using testing::write_sample;

constexpr int kSalt = 6;

void expect_restored(const fs::path& directory, int ranks, const std::vector<SampleTensor>& tensors) {
  FakeWorld(ranks).run([&](ProcessGroup& world) {
    StateDict state = testing::blank_state(tensors, world.rank(), ranks);
    CheckpointerOptions options;
    options.directory = directory;
    const auto restored = Checkpointer(world, options).restore(state, "auto");
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->ranks, ranks);
    EXPECT_EQ(restored->training_state, testing::kTrainingState);
    EXPECT_TRUE(testing::same_elements(state, testing::sample_state(tensors, world.rank(), ranks, kSalt)));
  });
}

void expect_resharded(const fs::path& source, const fs::path& output, int ranks,
                      const std::vector<SampleTensor>& tensors = testing::sample_tensors()) {
  const ReshardReport report = reshard({source, output, ranks, 2});
  EXPECT_EQ(report.path, output / source.filename());
  const Manifest before = read_manifest(source), after = open_checkpoint(report.path);
  EXPECT_EQ(report.bytes, before.tensor_bytes());
  EXPECT_EQ(after.ranks, ranks);
  EXPECT_EQ(after.files.size(), static_cast<std::size_t>(ranks));
  EXPECT_NE(after.id, before.id);
  EXPECT_EQ(verify(report.path).problem_count(), 0);
  EXPECT_TRUE(diff(source, report.path).same_tensors());
  EXPECT_EQ(read_text_file(output / kLatestName), source.filename().string() + "\n");
  expect_restored(output, ranks, tensors);
}

TEST(Reshard, AnyNumberOfRanksToAnyOther) {
  for (const int from : {1, 3, 7}) {
    const TemporaryDirectory directory;
    const fs::path source = write_sample(directory.path() / "from", 7, from, kSalt);
    for (const int to : {1, 2, 5, 29}) expect_resharded(source, directory.path() / fmt::format("to_{}", to), to);
  }
}

// Regions of several pieces of kChunkBytes, cut at odd places; the new shards begin on vector boundaries.
TEST(Reshard, LargeRegions) {
  const std::vector<SampleTensor> large{{"model/w", DType::float32, {1031, 3001}, "u"},
                                        {"model/tail", DType::float32, {3}, "u"}};
  const TemporaryDirectory directory;
  const fs::path source = write_sample(directory.path() / "from", 7, 2, kSalt, large);
  expect_resharded(source, directory.path() / "to", 3, large);
  for (const SavedTensor& tensor : read_manifest(directory.path() / "to" / source.filename()).tensors)
    EXPECT_EQ(tensor.rule.shard_numel % 16, 0);
}

TEST(Reshard, FromFilesThatRanksShare) {
  const TemporaryDirectory directory;
  FakeWorld(5).run([&](ProcessGroup& world) {
    CheckpointerOptions options;
    options.directory = directory.path() / "from";
    options.files = 2;
    const StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), 5, kSalt);
    Checkpointer(world, options).save(7, state, testing::kTrainingState);
  });
  for (const int to : {2, 5}) {
    const fs::path output = directory.path() / std::to_string(to);
    expect_resharded(directory.path() / "from" / step_directory_name(7), output, to);
  }
}

TEST(Reshard, DamageLeavesNothing) {
  const TemporaryDirectory directory;
  const fs::path source = write_sample(directory.path() / "from", 7, 3, kSalt);
  const fs::path shard = source / read_manifest(source).files[1].name;
  int refused = 0;
  for (std::int64_t at = 0; at < read_manifest(source).files[1].bytes; at += 61) {
    testing::flip_bit(shard, at);
    bool made = false;
    try {
      reshard({source, directory.path() / "to", 2, 1});
      made = true;
    } catch (const CheckpointError&) {
      ++refused;
      EXPECT_TRUE(fs::is_empty(directory.path() / "to"));
    }
    testing::flip_bit(shard, at);
    EXPECT_TRUE(!made || diff(source, directory.path() / "to" / source.filename()).same_tensors()) << at;
    fs::remove_all(directory.path() / "to");
  }
  EXPECT_GT(refused, 10);
}

TEST(Reshard, WhatIsThereStays) {
  const TemporaryDirectory directory;
  const fs::path source = write_sample(directory.path() / "from", 7, 3, kSalt);
  EXPECT_THROW(reshard({source, directory.path() / "from", 2, 1}), OptionError);
  write_text_file(directory.path() / "file", "mine");
  EXPECT_THROW(reshard({source, directory.path() / "file", 2, 1}), OptionError);
  EXPECT_EQ(read_text_file(directory.path() / "file"), "mine");
  EXPECT_THROW(reshard({source, directory.path() / "to", 0, 1}), OptionError);
  EXPECT_FALSE(fs::exists(directory.path() / "to"));
  EXPECT_EQ(verify(source).problem_count(), 0);
}

}  // namespace
}  // namespace shoal::checkpoint
