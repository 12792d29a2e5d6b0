// Saving while the caller goes on. The oracle is a save that the caller waits for: the same files, byte by byte.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "checkpoint/background_writer.h"
#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/shard_writer.h"
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

constexpr int kRanks = 3;

// What two pieces of staging memory do not hold, next to small ones.
std::vector<SampleTensor> large_tensors() {
  std::vector<SampleTensor> tensors = testing::sample_tensors();
  tensors.push_back({"model/large", DType::float32, {3, kChunkBytes + 5}, "w"});
  tensors.push_back({"model/small", DType::int8, {7}, "w"});
  return tensors;
}

// As if it were on a device: readable by fetch() alone.
void move_to_device(StateDict& state) {
  for (ShardedTensor& tensor : state.tensors) {
    Region& region = tensor.region;
    region.fetch = [from = region.data](std::int64_t offset, std::byte* to, std::size_t bytes) {
      std::memcpy(to, from + offset, bytes);
    };
    region.data = nullptr;
  }
}

void overwrite(StateDict& state, bool buffers) {
  for (ShardedTensor& tensor : state.tensors) {
    if (tensor.changes_in_forward != buffers || tensor.region.count == 0) continue;
    std::memset(tensor.region.data, 0xEE, static_cast<std::size_t>(tensor.region.count * size_of(tensor.spec.dtype)));
  }
}

class ShardFileOf : public ::testing::TestWithParam<std::tuple<std::int64_t, bool>> {};

TEST_P(ShardFileOf, ABackgroundWriterIsThatOfAPlainOne) {
  const auto [stage_bytes, on_device] = GetParam();
  const TemporaryDirectory directory;
  const ShardHeader header{"0123456789abcdef", 7, 1, 2, 2};
  const StateDict expected_state = testing::sample_state(large_tensors(), 1, 2, 5);
  fs::create_directories(directory.path() / "plain" / "shards");
  fs::create_directories(directory.path() / "background" / "shards");
  const ShardFile expected = testing::write_shard(directory.path() / "plain", header, expected_state);

  StateDict state = testing::sample_state(large_tensors(), 1, 2, 5);
  if (on_device) move_to_device(state);
  StagingPool pool;
  ShardOutput output(directory.path() / "background", header, state);
  BackgroundWriter writer(std::move(output), std::move(state), pool, stage_bytes);
  const ShardFile file = writer.finish().description();
  EXPECT_TRUE(writer.done());
  EXPECT_EQ(file.name, expected.name);
  EXPECT_EQ(file.bytes, expected.bytes);
  EXPECT_EQ(file.table_crc, expected.table_crc);
  EXPECT_EQ(testing::contents_of(directory.path() / "background"), testing::contents_of(directory.path() / "plain"));
}

INSTANTIATE_TEST_SUITE_P(Staged, ShardFileOf,
                         ::testing::Combine(::testing::Values(0, 1, 3 * kChunkBytes, 1 << 30), ::testing::Bool()));

TEST(StagingPool, NeverTakesMoreThanItsLimitAndKeepsWhatItHas) {
  int made = 0;
  StagingPool pool([&] {
    ++made;
    return std::shared_ptr<std::byte>(new std::byte[1], std::default_delete<std::byte[]>());
  });
  std::vector<std::shared_ptr<std::byte>> pieces;
  while (auto piece = pool.take(5 * kChunkBytes)) pieces.push_back(std::move(piece));
  EXPECT_EQ(pieces.size(), 5u);
  for (auto& piece : pieces) pool.give_back(std::move(piece));
  pieces.clear();
  while (auto piece = pool.take(0)) pieces.push_back(std::move(piece));
  EXPECT_EQ(pieces.size(), 2u) << "less than two would let nothing be written";
  EXPECT_EQ(made, 5);
}

// What is made ahead is what the first save takes, and no more than the budget allows.
TEST(StagingPool, IsFilledBeforeTheFirstSave) {
  const std::vector<testing::SampleTensor> tensors{{"model/w", DType::uint8, {18 << 20}, "u"}};
  for (const auto& [budget, made_ahead] : {std::pair<std::int64_t, int>{1 << 30, 5}, {3 * kChunkBytes + 1, 3}}) {
    const TemporaryDirectory directory;
    FakeWorld(1).run([&, stage = budget, wanted = made_ahead](ProcessGroup& world) {
      std::atomic<int> made = 0;
      CheckpointerOptions options;
      options.directory = directory.path();
      options.stage_bytes = stage;
      options.allocate_stage = [&] {
        ++made;
        return std::shared_ptr<std::byte>(new std::byte[kChunkBytes], std::default_delete<std::byte[]>());
      };
      Checkpointer checkpointer(world, options);
      checkpointer.prepare_saves(testing::blank_state(tensors, 0, 1));
      for (int waited = 0; made < wanted && waited < 1000; ++waited)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(made, wanted);
      checkpointer.start_save(1, testing::blank_state(tensors, 0, 1), testing::kTrainingState);
      checkpointer.finish_save();
      EXPECT_EQ(made, wanted);
    });
  }
}

// Blocks a writer at one point until it is let go.
class Gate {
 public:
  explicit Gate(SavePoint point) : point_(point) {}
  void pass(SavePoint point) {
    if (point == point_) open_.wait();
  }
  void open() { promise_.set_value(); }

 private:
  SavePoint point_;
  std::promise<void> promise_;
  std::shared_future<void> open_ = promise_.get_future().share();
};

StateDict state_with_buffers(int rank, int salt) {
  StateDict state = testing::sample_state(large_tensors(), rank, kRanks, salt);
  for (ShardedTensor& tensor : state.tensors) tensor.changes_in_forward = tensor.rule.unit.empty();
  return state;
}

// Views of the same memory, as the engine gives them.
StateDict views_of(StateDict& state) {
  StateDict views;
  views.tensors = state.tensors;
  views.aliases = state.aliases;
  return views;
}

TEST(AsyncSave, HoldsWhatTheStateWasThoughItChangesMeanwhile) {
  const TemporaryDirectory directory;
  Gate gate(SavePoint::shard_written);
  FakeWorld(kRanks).run([&](ProcessGroup& world) {
    Checkpointer checkpointer(world, {.directory = directory.path(),
                                      .observer = [&](SavePoint point) { gate.pass(point); },
                                      .stage_bytes = std::int64_t{1} << 30});
    StateDict state = state_with_buffers(world.rank(), 5);
    checkpointer.start_save(10, views_of(state), testing::kTrainingState);
    overwrite(state, /*buffers=*/true);
    checkpointer.await_copies();
    overwrite(state, /*buffers=*/false);
    EXPECT_TRUE(checkpointer.saving());
    EXPECT_FALSE(checkpointer.save_idle());
    EXPECT_TRUE(list_checkpoints(directory.path()).empty()) << "nothing is committed before all is on the disk";
    world.barrier();
    if (world.rank() == 0) gate.open();
    EXPECT_FALSE(checkpointer.continue_save());  // the shards are there, the commit is not
    EXPECT_TRUE(world.rank() == 0 || checkpointer.save_idle());
    const auto report = checkpointer.continue_save();
    ASSERT_TRUE(report);
    EXPECT_FALSE(checkpointer.saving());
    StateDict loaded = testing::blank_state(large_tensors(), world.rank(), kRanks);
    ASSERT_TRUE(checkpointer.restore(loaded, "auto"));
    EXPECT_TRUE(testing::same_elements(loaded, testing::sample_state(large_tensors(), world.rank(), kRanks, 5)));
  });
  EXPECT_EQ(verify(directory.path() / "step_00000010").problem_count(), 0);
}

TEST(AsyncSave, AFailureOfOneWriterReachesAllRanksAndLeavesNothing) {
  for (const SavePoint point : {SavePoint::shard_created, SavePoint::shard_half_written, SavePoint::shard_written,
                                SavePoint::shard_synced, SavePoint::manifest_written, SavePoint::committed}) {
    const TemporaryDirectory directory;
    const int failing = point < SavePoint::manifest_written ? 1 : 0;
    FakeWorld(kRanks).run([&](ProcessGroup& world) {
      CheckpointerOptions options{.directory = directory.path(), .stage_bytes = 1};
      Checkpointer(world, options).save(1, state_with_buffers(world.rank(), 1), testing::kTrainingState);
      options.observer = [&](SavePoint passed) {
        if (world.rank() == failing && passed == point) throw IoError("cannot write SHARD: Disk quota exceeded");
      };
      Checkpointer checkpointer(world, options);
      checkpointer.start_save(2, state_with_buffers(world.rank(), 2), testing::kTrainingState);
      checkpointer.await_copies();
      try {
        checkpointer.finish_save();
        ADD_FAILURE() << "no error on rank " << world.rank();
      } catch (const IoError& error) {
        EXPECT_NE(std::string(error.what()).find("Disk quota exceeded"), std::string::npos) << error.what();
      }
      EXPECT_FALSE(checkpointer.saving());
    });
    ASSERT_EQ(list_checkpoints(directory.path()).size(), 1u) << static_cast<int>(point);
    EXPECT_EQ(testing::temporaries_in(directory.path()), 0);
  }
}

TEST(AsyncSave, GivenUpItLeavesTheCheckpointBeforeAndNothingElse) {
  const TemporaryDirectory directory;
  FakeWorld(kRanks).run([&](ProcessGroup& world) {
    const CheckpointerOptions options{.directory = directory.path(), .stage_bytes = 1};
    Checkpointer(world, options).save(1, state_with_buffers(world.rank(), 1), testing::kTrainingState);
    Checkpointer checkpointer(world, options);
    checkpointer.start_save(2, state_with_buffers(world.rank(), 2), testing::kTrainingState);
    world.barrier();
  });
  testing::save_sample(directory.path(), 3, 3);  // sweeps what a rank may have written after rank 0 had cleared away
  EXPECT_EQ(testing::temporaries_in(directory.path()), 0);
  const auto entries = list_checkpoints(directory.path());
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].step, 1);
}

TEST(AsyncSave, OneIsInFlightAtATime) {
  const TemporaryDirectory directory;
  FakeWorld(kRanks).run([&](ProcessGroup& world) {
    Checkpointer checkpointer(world, {.directory = directory.path()});
    checkpointer.start_save(1, state_with_buffers(world.rank(), 1), testing::kTrainingState);
    EXPECT_THROW(checkpointer.start_save(2, state_with_buffers(world.rank(), 2), testing::kTrainingState),
                 InternalError);
    EXPECT_EQ(checkpointer.finish_save().path.filename(), "step_00000001");
  });
}

// A job that trains while it saves dies at every point.
class KillDuringAsyncSave : public ::testing::TestWithParam<SavePoint> {};

TEST_P(KillDuringAsyncSave, TheCheckpointBeforeOrTheNewOneIsFound) {
  const TemporaryDirectory directory;
  testing::save_sample(directory.path(), 10, 10);
  testing::save_sample(directory.path(), 20, 20);
  const bool killed = testing::was_killed(testing::status_of_child([&] {
    FakeWorld(testing::kSavingRanks).run([&](ProcessGroup& world) {
      Checkpointer checkpointer(world, {.directory = directory.path(), .keep = 2, .observer = [](SavePoint passed) {
                                          if (passed == GetParam()) ::raise(SIGKILL);
                                        }});
      StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), testing::kSavingRanks, 30);
      checkpointer.start_save(30, views_of(state), testing::kTrainingState);
      checkpointer.await_copies();
      overwrite(state, /*buffers=*/false);
      checkpointer.finish_save();
    });
  }));
  EXPECT_EQ(killed, GetParam() != SavePoint::old_displaced);
  const bool renamed = GetParam() >= SavePoint::renamed || !killed;
  EXPECT_EQ(testing::restored_step(directory.path(), [](std::int64_t step) { return static_cast<int>(step); }),
            renamed ? 30 : 20);
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, KillDuringAsyncSave, ::testing::ValuesIn(testing::all_save_points()));

}  // namespace
}  // namespace shoal::checkpoint
