// Files that several ranks write together: who writes to which, and that nobody who reads can tell the difference.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/file_groups.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/verify.h"
#include "comm/fake_process_group.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

using comm::FakeWorld;
using comm::ProcessGroup;
using testing::sample_tensors;
using testing::TemporaryDirectory;
using Files = std::vector<int>;

TEST(FileOfRanks, OneARankOnOneHostAndOneAHostOnSeveral) {
  EXPECT_EQ(file_of_ranks({"a"}, 0), (Files{0}));
  EXPECT_EQ(file_of_ranks({"a", "a", "a"}, 0), (Files{0, 1, 2}));
  EXPECT_EQ(file_of_ranks({"a", "a", "b"}, 0), (Files{0, 0, 1}));
  EXPECT_EQ(file_of_ranks({"b", "a", "b", "a", "c"}, 0), (Files{0, 1, 0, 1, 2})) << "ranks dealt out to hosts in turn";
}

TEST(FileOfRanks, AsManyAsAskedFor) {
  EXPECT_EQ(file_of_ranks({"a", "a", "b", "b"}, 1), (Files{0, 0, 0, 0}));
  EXPECT_EQ(file_of_ranks({"a", "a", "b", "b"}, 4), (Files{0, 1, 2, 3}));
  EXPECT_EQ(file_of_ranks({"a", "a", "b", "b"}, 99), (Files{0, 1, 2, 3})) << "no rank writes to two";
  EXPECT_EQ(file_of_ranks({"a", "a", "a", "a", "a"}, 2), (Files{0, 0, 0, 1, 1}));
  EXPECT_EQ(file_of_ranks({"a", "b", "c", "d", "e"}, 2), (Files{0, 0, 0, 1, 1}));
  EXPECT_EQ(file_of_ranks({"a", "b", "a", "b"}, 3), (Files{0, 1, 0, 2})) << "of one host before of two";
}

TEST(FileOfRanks, NumbersHaveNoGapAndNeighboursShare) {
  for (int hosts = 1; hosts <= 700; hosts += 233) {
    for (const int a_host : {1, 3}) {
      std::vector<std::string> names;
      for (int rank = 0; rank < hosts * a_host; ++rank) names.push_back(std::to_string(rank / a_host));
      for (const int files : {0, 1, 2, 7, 513}) {
        const Files file = file_of_ranks(names, files);
        const int count = static_cast<int>(std::set<int>(file.begin(), file.end()).size());
        EXPECT_TRUE(std::is_sorted(file.begin(), file.end()));
        EXPECT_EQ(file.back() + 1, count);
        const int unasked = hosts == 1 ? a_host : std::min(hosts, kMostFiles);
        EXPECT_EQ(count, files == 0 ? unasked : std::min(files, hosts * a_host));
      }
    }
  }
}

CheckpointerOptions options_for(const TemporaryDirectory& directory, int files) {
  return {.directory = directory.path(), .files = files, .stage_bytes = 1};
}

// The oracle is the state itself: a restart on any number of ranks has every element back.
class SharedFiles : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(SharedFiles, AreReadOnAnyNumberOfRanks) {
  const auto [ranks, files] = GetParam();
  const TemporaryDirectory directory;
  for (const bool async : {false, true}) {
    const int salt = async ? 2 : 1;
    FakeWorld(ranks).run([&](ProcessGroup& world) {
      Checkpointer checkpointer(world, options_for(directory, files));
      StateDict state = testing::sample_state(sample_tensors(), world.rank(), ranks, salt);
      if (!async) {
        checkpointer.save(salt, std::move(state), testing::kTrainingState);
      } else {
        checkpointer.start_save(salt, std::move(state), testing::kTrainingState);
        checkpointer.finish_save();
      }
    });
    const auto path = list_checkpoints(directory.path()).front().path;
    EXPECT_EQ(open_checkpoint(path).files.size(), static_cast<std::size_t>(std::min(files, ranks)));
    EXPECT_EQ(verify(path).problem_count(), 0);
    for (const int readers : {1, 2, 5}) {
      FakeWorld(readers).run([&](ProcessGroup& world) {
        StateDict state = testing::blank_state(sample_tensors(), world.rank(), readers);
        ASSERT_TRUE(Checkpointer(world, options_for(directory, 0)).restore(state, "auto"));
        EXPECT_TRUE(
            testing::same_elements(state, testing::sample_state(sample_tensors(), world.rank(), readers, salt)));
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, SharedFiles,
                         ::testing::Combine(::testing::Values(2, 5, 8), ::testing::Values(1, 2, 3)));

TEST(SharedFiles, AFailureOfAnyPartIsEverybodysAndLeavesNothing) {
  for (const int failing : {0, 1, 4}) {
    for (const SavePoint point : {SavePoint::shard_created, SavePoint::shard_half_written, SavePoint::shard_synced}) {
      const TemporaryDirectory directory;
      FakeWorld(5).run([&](ProcessGroup& world) {
        CheckpointerOptions options = options_for(directory, 2);
        options.observer = [&](SavePoint passed) {
          if (world.rank() == failing && passed == point) throw IoError("cannot write SHARD: No space left on device");
        };
        Checkpointer checkpointer(world, options);
        const StateDict state = testing::sample_state(sample_tensors(), world.rank(), 5, 1);
        try {
          checkpointer.save(1, state, testing::kTrainingState);
          ADD_FAILURE() << "no error on rank " << world.rank();
        } catch (const IoError& error) {
          EXPECT_EQ(std::string(error.what()).find("rank " + std::to_string(failing) + ": cannot write"), 0u)
              << error.what();
        }
      });
      EXPECT_TRUE(list_checkpoints(directory.path()).empty());
      EXPECT_EQ(testing::temporaries_in(directory.path()), 0);
    }
  }
}

// Like SharedFiles, AreReadOnAnyNumberOfRanks, of a tensor that is damaged: its elements are named, not another's.
TEST(SharedFiles, ADamagedPartIsNamed) {
  const TemporaryDirectory directory;
  FakeWorld(3).run([&](ProcessGroup& world) {
    const StateDict state = testing::sample_state(sample_tensors(), world.rank(), 3, 1);
    Checkpointer(world, options_for(directory, 1)).save(1, state, testing::kTrainingState);
  });
  const auto path = directory.path() / "step_00000001";
  const Manifest manifest = open_checkpoint(path);
  ASSERT_EQ(manifest.files.size(), 1u);
  int named = 0;
  for (std::int64_t offset = 0; offset < manifest.files[0].bytes; offset += 31) {
    testing::flip_bit(path / manifest.files[0].name, offset);
    const VerifyReport report = verify(path);
    for (const FileCheck& check : report.files) {
      for (const Problem& problem : check.problems) {
        EXPECT_NE(problem.text.find("_group_00000.h5"), std::string::npos) << problem.text;
        named += problem.text.find("elements") != std::string::npos;
      }
    }
    testing::flip_bit(path / manifest.files[0].name, offset);
  }
  EXPECT_GT(named, 0);
  EXPECT_EQ(verify(path).problem_count(), 0);
}

}  // namespace
}  // namespace shoal::checkpoint
