#include "checkpoint/catalog.h"

#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::write_sample;

TEST(Catalog, NoDirectoryHoldsNoCheckpoint) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(list_checkpoints(directory.path() / "missing").empty());
  EXPECT_TRUE(list_checkpoints(directory.path()).empty());
  EXPECT_THROW(resolve_checkpoint(directory.path()), CheckpointError);
  EXPECT_THROW(resolve_checkpoint(directory.path() / "missing"), CheckpointError);
}

TEST(Catalog, TheNewestWasSavedLast) {
  const TemporaryDirectory directory;
  write_sample(directory.path(), 100, 1, 1);
  const fs::path second = write_sample(directory.path(), 200, 2, 2);
  const fs::path gone_back = write_sample(directory.path(), 150, 3, 3);
  const auto entries = list_checkpoints(directory.path());
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].path, gone_back);
  EXPECT_EQ(entries[1].path, second);
  EXPECT_EQ(entries[2].step, 100);
  EXPECT_EQ(resolve_checkpoint(directory.path()), gone_back);
  EXPECT_EQ(resolve_checkpoint(second), second);
  EXPECT_EQ(open_checkpoint(second).ranks, 2);
}

TEST(Catalog, DamagedOnesAreListedByTheirStep) {
  const TemporaryDirectory directory;
  std::vector<fs::path> paths;
  for (const std::int64_t step : {1, 2, 3, 4}) paths.push_back(write_sample(directory.path(), step, 1, 1));
  fs::remove(paths[1] / kCommitName);
  testing::flip_bit(paths[3] / kCommitName, 0);
  const auto entries = list_checkpoints(directory.path());
  ASSERT_EQ(entries.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(entries[i].path, paths[3 - i]);
  EXPECT_LT(entries[0].sequence, 0);
  EXPECT_LT(entries[2].sequence, 0);
}

TEST(Catalog, AttemptsAndWhatIsNotOursAreNotListed) {
  const TemporaryDirectory directory;
  fs::create_directories(directory.path() / temporary_directory_name(3, 0, make_checkpoint_id()));
  fs::create_directories(directory.path() / "step_of_mine");
  EXPECT_TRUE(list_checkpoints(directory.path()).empty());
}

TEST(Catalog, MissingPartsAreNamed) {
  const TemporaryDirectory directory;
  for (const char* part : {kCommitName, kManifestName}) {
    const fs::path path = write_sample(directory.path(), 1, 1, 1);
    fs::remove(path / part);
    try {
      open_checkpoint(path);
      FAIL() << part;
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shoal::checkpoint
