// Saved by N ranks, restored by M; fallback from damage; refusal of another model.
#include <gtest/gtest.h>

#include <functional>
#include <mutex>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/whole_tensors.h"
#include "comm/fake_process_group.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using comm::FakeWorld;
using comm::ProcessGroup;
using testing::SampleTensor;
using testing::TemporaryDirectory;

CheckpointerOptions options_for(const fs::path& directory) {
  CheckpointerOptions options;
  options.directory = directory;
  options.keep = 10;
  return options;
}

SaveReport save(const fs::path& directory, std::int64_t step, int ranks, int salt,
                const std::vector<SampleTensor>& tensors = testing::sample_tensors()) {
  SaveReport report;
  FakeWorld(ranks).run([&](ProcessGroup& world) {
    const StateDict state = testing::sample_state(tensors, world.rank(), ranks, salt);
    const SaveReport mine = Checkpointer(world, options_for(directory)).save(step, state, testing::kTrainingState);
    if (world.rank() == 0) report = mine;
  });
  return report;
}

// What the ranks restore, each with several threads; every rank's elements must be those of `salt`.
std::optional<Restored> restore(const fs::path& directory, const std::string& from, int ranks, int salt,
                                const std::vector<SampleTensor>& tensors = testing::sample_tensors()) {
  std::optional<Restored> restored;
  FakeWorld(ranks).run([&](ProcessGroup& world) {
    StateDict state = testing::blank_state(tensors, world.rank(), ranks);
    CheckpointerOptions options = options_for(directory);
    options.read_workers = 3;
    const auto mine = Checkpointer(world, options).restore(state, from);
    if (mine) {
      EXPECT_TRUE(testing::same_elements(state, testing::sample_state(tensors, world.rank(), ranks, salt)))
          << "rank " << world.rank() << " of " << ranks;
    }
    if (world.rank() == 0) restored = mine;
  });
  return restored;
}

// Runs on `ranks` ranks; each must throw an ErrorType with the same text, which is returned.
template <typename ErrorType>
std::string common_error(int ranks, const std::function<void(ProcessGroup&)>& body) {
  std::mutex mutex;
  std::vector<std::string> texts;
  FakeWorld(ranks).run([&](ProcessGroup& world) {
    try {
      body(world);
    } catch (const ErrorType& error) {
      const std::lock_guard lock(mutex);
      texts.emplace_back(error.what());
    }
  });
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(ranks));
  for (const std::string& text : texts) EXPECT_EQ(text, texts.front());
  return texts.empty() ? "" : texts.front();
}

TEST(Restore, AnyNumberOfRanksToAnyOther) {
  for (const int from : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const TemporaryDirectory directory;
    const SaveReport report = save(directory.path(), 7, from, from);
    EXPECT_EQ(report.path, directory.path() / "step_00000007");
    for (const int to : {1, 2, 3, 4, 5, 6, 7, 8, 11}) {
      const auto restored = restore(directory.path(), "auto", to, from);
      ASSERT_TRUE(restored) << from << " to " << to;
      EXPECT_EQ(restored->path, report.path);
      EXPECT_EQ(restored->step, 7);
      EXPECT_EQ(restored->ranks, from);
      EXPECT_EQ(restored->training_state, testing::kTrainingState);
    }
  }
}

PlacedElements in_memory(const std::vector<ShardedTensor*>& tensors) {
  PlacedElements placed(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Region& region = tensors[i]->region;
    const std::int64_t bytes = region.count * size_of(tensors[i]->spec.dtype);
    if (bytes > 0) placed.add(i, region.data, bytes, crc32c(region.data, static_cast<std::size_t>(bytes)));
  }
  return placed;
}

// As if the elements had been read right and put into the wrong place.
TEST(WholeTensors, ATensorThatIsPutTogetherWronglyIsNamed) {
  const TemporaryDirectory directory;
  save(directory.path(), 7, 2, 5);
  const Manifest manifest = open_checkpoint(directory.path() / "step_00000007");
  std::vector<RegionTable> tables;
  for (std::size_t i = 0; i < manifest.files.size(); ++i)
    tables.push_back(ShardReader(directory.path() / "step_00000007", manifest, i).regions());
  const auto check = [&](ProcessGroup& world, const std::function<void(ShardedTensor&)>& spoil) {
    StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), world.size(), 5);
    std::vector<ShardedTensor*> tensors;
    for (ShardedTensor& tensor : state.tensors) tensors.push_back(&tensor);
    spoil(state.tensors.front());
    check_whole_tensors(world, manifest, tables, in_memory(tensors), "HERE");
  };
  FakeWorld(3).run([&](ProcessGroup& world) { check(world, [](ShardedTensor&) {}); });
  const auto last_rank_spoils = [&](ProcessGroup& world, const std::function<void(ShardedTensor&)>& spoil) {
    check(
        world, world.rank() == 2 ? spoil : [](ShardedTensor&) {});
  };
  const std::string name =
      "HERE: the tensors in memory are not those of the files: " + testing::sample_tensors().front().name;
  for (const auto& spoil : std::vector<std::function<void(ShardedTensor&)>>{
           [](ShardedTensor& tensor) { tensor.region.data[5] ^= std::byte{1}; },
           [](ShardedTensor& tensor) { --tensor.region.count; }, [](ShardedTensor& tensor) { tensor.saves = false; },
           [](ShardedTensor& tensor) { ++tensor.region.begin; }}) {
    const std::string text =
        common_error<InternalError>(3, [&](ProcessGroup& world) { last_rank_spoils(world, spoil); });
    EXPECT_EQ(text, name);
  }
}

TEST(Restore, MoreRanksThanElements) {
  const std::vector<SampleTensor> tiny{{"model/w", DType::float32, {3}, "u"}, {"model/b", DType::bfloat16, {1}, "v"}};
  const TemporaryDirectory directory;
  save(directory.path(), 1, 5, 9, tiny);
  for (const int to : {1, 2, 13}) EXPECT_TRUE(restore(directory.path(), "auto", to, 9, tiny));
}

// Regions of several pieces of kChunkBytes, cut at odd places.
TEST(Restore, LargeRegions) {
  const std::vector<SampleTensor> large{{"model/w", DType::float32, {1031, 5003}, "u"},
                                        {"model/tail", DType::uint8, {3}, "v"}};
  const TemporaryDirectory directory;
  save(directory.path(), 1, 2, 9, large);
  EXPECT_TRUE(restore(directory.path(), "auto", 3, 9, large));
}

TEST(Restore, NothingThere) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(restore(directory.path() / "new", "auto", 2, 0));
  EXPECT_TRUE(fs::is_directory(directory.path() / "new"));
  for (const fs::path& from : {directory.path() / "missing", directory.path() / "new"})
    common_error<CheckpointError>(2, [&](ProcessGroup& world) {
      StateDict state = testing::blank_state(testing::sample_tensors(), world.rank(), 2);
      Checkpointer(world, options_for(directory.path())).restore(state, from.string());
    });
}

TEST(Restore, ByPath) {
  const TemporaryDirectory directory;
  const fs::path first = save(directory.path(), 1, 2, 1).path;
  save(directory.path(), 2, 2, 2);
  EXPECT_EQ(restore(directory.path(), first.string(), 3, 1)->step, 1);
  EXPECT_EQ(restore(directory.path(), directory.path().string(), 3, 2)->step, 2);
  EXPECT_EQ(read_text_file(directory.path() / kLatestName), "step_00000002\n");
}

// One damage each; "auto" goes back to the checkpoint before and says so, a path does not.
class RestoreAfterDamage : public ::testing::TestWithParam<std::function<void(const fs::path&)>> {};

TEST_P(RestoreAfterDamage, FallsBackLoudly) {
  const TemporaryDirectory directory;
  save(directory.path(), 1, 3, 1);
  const fs::path newest = save(directory.path(), 2, 3, 2).path;
  GetParam()(newest);
  ::testing::internal::CaptureStderr();
  const auto restored = restore(directory.path(), "auto", 2, 1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->step, 1);
  EXPECT_NE(said.find("DAMAGED CHECKPOINT"), std::string::npos) << said;
  EXPECT_NE(said.find("step_00000002"), std::string::npos) << said;
  EXPECT_NE(said.find("falling back to"), std::string::npos) << said;
  common_error<CheckpointError>(2, [&](ProcessGroup& world) {
    StateDict state = testing::blank_state(testing::sample_tensors(), world.rank(), 2);
    Checkpointer(world, options_for(directory.path())).restore(state, newest.string());
  });
}

fs::path shard_of(const fs::path& checkpoint, std::size_t rank) {
  return checkpoint / read_manifest(checkpoint).files.at(rank).name;
}

void damage_elements(const fs::path& checkpoint) {
  // The scalar lies on rank 0 and is read by every rank; conv1.weight's elements lie on rank 1.
  std::string wanted;
  for (std::int64_t i = 0; i < 8; ++i)
    wanted += static_cast<char>(testing::sample_byte(2, "model/count", i) & std::byte{0x3F});
  const fs::path shard = shard_of(checkpoint, 0);
  const std::size_t at = read_text_file(shard).find(wanted);
  ASSERT_NE(at, std::string::npos);
  testing::flip_bit(shard, static_cast<std::int64_t>(at));
}

INSTANTIATE_TEST_SUITE_P(
    , RestoreAfterDamage,
    ::testing::Values([](const fs::path& newest) { fs::remove(newest / kCommitName); },
                      [](const fs::path& newest) { fs::remove(newest / kManifestName); },
                      [](const fs::path& newest) { testing::flip_bit(newest / kManifestName, 100); },
                      [](const fs::path& newest) { testing::flip_bit(newest / kCommitName, 30); },
                      [](const fs::path& newest) { fs::remove(shard_of(newest, 2)); },
                      [](const fs::path& newest) { fs::resize_file(shard_of(newest, 1), 1000); },
                      [](const fs::path& newest) { testing::flip_bit(shard_of(newest, 1), 3); }, damage_elements));

TEST(Restore, NoSoundOneIsAnError) {
  const TemporaryDirectory directory;
  fs::remove(save(directory.path(), 1, 2, 1).path / kCommitName);
  fs::remove(save(directory.path(), 2, 2, 2).path / kManifestName);
  ::testing::internal::CaptureStderr();
  const std::string text = common_error<CheckpointError>(2, [&](ProcessGroup& world) {
    StateDict state = testing::blank_state(testing::sample_tensors(), world.rank(), 2);
    Checkpointer(world, options_for(directory.path())).restore(state, "auto");
  });
  ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("none of the 2 checkpoints"), std::string::npos) << text;
}

TEST(Restore, AnotherModelIsRefusedAndNotFallenBackFrom) {
  const TemporaryDirectory directory;
  save(directory.path(), 1, 2, 1);
  std::vector<SampleTensor> other = testing::sample_tensors();
  other[0].shape = {7, 3, 3, 4};
  other[1].dtype = DType::float64;
  other[2].name = "model/new";
  save(directory.path(), 2, 2, 1, other);
  const std::string text = common_error<CheckpointError>(2, [&](ProcessGroup& world) {
    StateDict state = testing::blank_state(testing::sample_tensors(), world.rank(), 2);
    Checkpointer(world, options_for(directory.path())).restore(state, "auto");
  });
  for (const char* part :
       {"1 of another shape: 'model/conv1.weight' is [7, 3, 3, 4] in the checkpoint and [7, 3, 3, 3]",
        "1 of another type: 'model/conv1.bias' is float64",
        "1 in the checkpoint but not in the model (--allow-extra): 'model/new'",
        "1 in the model but not in the checkpoint (--allow-missing): 'model/a/b%c'"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Save, RanksThatDisagreeAreToldSo) {
  const TemporaryDirectory directory;
  const auto save_step = [&](ProcessGroup& world, std::int64_t step, const StateDict& state) {
    Checkpointer(world, options_for(directory.path())).save(step, state, testing::kTrainingState);
  };
  common_error<InternalError>(3, [&](ProcessGroup& world) {
    const StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), 3, 1);
    save_step(world, world.rank() == 2 ? 8 : 7, state);
  });
  const std::string hole = common_error<InternalError>(3, [&](ProcessGroup& world) {
    StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), 3, 1);
    if (world.rank() == 1) state.tensors[0].saves = false;
    save_step(world, 7, state);
  });
  EXPECT_NE(hole.find("tensor 'model/conv1.weight'"), std::string::npos) << hole;
  EXPECT_TRUE(list_checkpoints(directory.path()).empty());
}

TEST(Save, KeepMustBePositive) {
  const TemporaryDirectory directory;
  common_error<OptionError>(1, [&](ProcessGroup& world) {
    CheckpointerOptions options = options_for(directory.path());
    options.keep = 0;
    Checkpointer checkpointer(world, options);
  });
}

TEST(Save, DirectoryUnderAFileIsRefusedOnAllRanks) {
  const TemporaryDirectory directory;
  write_text_file(directory.path() / "file", "x");
  const std::string text = common_error<IoError>(2, [&](ProcessGroup& world) {
    Checkpointer checkpointer(world, options_for(directory.path() / "file" / "ckpt"));
  });
  EXPECT_NE(text.find((directory.path() / "file").string()), std::string::npos) << text;
}

}  // namespace
}  // namespace shoal::checkpoint
