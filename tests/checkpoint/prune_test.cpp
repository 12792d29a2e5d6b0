// What a save removes, and what never.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "checkpoint/attempt.h"
#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "core/file_calls.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::write_sample;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(Prune, OlderOnesGo) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {1, 2, 3, 4}) write_sample(directory.path(), step, 1, 1);
  tidy_up(directory.path(), 2);
  EXPECT_EQ(names_in(directory.path()), (Names{"latest", "step_00000003", "step_00000004"}));
  EXPECT_EQ(read_text_file(directory.path() / kLatestName), "step_00000004\n");
}

TEST(Prune, MultiplesStayForEver) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {0, 5, 10, 15, 20, 25, 30, 35}) {
    write_sample(directory.path(), step, 1, 1);
    tidy_up(directory.path(), {2, 10});
  }
  EXPECT_EQ(names_in(directory.path()),
            (Names{"latest", "step_00000010", "step_00000020", "step_00000030", "step_00000035"}));
  tidy_up(directory.path(), {1, 20});  // of a run with other options
  EXPECT_EQ(names_in(directory.path()), (Names{"latest", "step_00000020", "step_00000035"}));
}

class CountedManifests final : public FileCalls {
 public:
  CountedManifests() { use_file_calls(this); }
  ~CountedManifests() override { use_file_calls(nullptr); }
  ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset) override {
    const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
    if (offset == 0 && path.filename() == kManifestName) ++count;
    return FileCalls::pread(descriptor, data, bytes, offset);
  }
  int count = 0;
};

// A run of months has hundreds of these, and a save must not read them all.
TEST(Prune, ThoseThatStayForEverAreNotReadAgain) {
  const TemporaryDirectory directory;
  for (std::int64_t step = 10; step <= 200; step += 10) write_sample(directory.path(), step, 1, 1);
  write_sample(directory.path(), 205, 1, 1);
  write_sample(directory.path(), 206, 1, 1);
  const CountedManifests manifests;
  tidy_up(directory.path(), {1, 10});
  EXPECT_EQ(names_in(directory.path()).size(), 22u) << "20 multiples, the newest and 'latest'";
  EXPECT_LE(manifests.count, 3) << "of the newest, and of the one that goes";
}

// The older of two checkpoints of one step was displaced: it goes though its step is a multiple.
TEST(Prune, OfAMultipleTheNewerStays) {
  const TemporaryDirectory directory;
  write_sample(directory.path(), 10, 1, 1);
  fs::rename(directory.path() / "step_00000010", directory.path() / displaced_directory_name(10, make_checkpoint_id()));
  write_sample(directory.path(), 9, 1, 1);  // gives the displaced one its name back
  EXPECT_EQ(names_in(directory.path()), (Names{"step_00000009", "step_00000010"}));
  write_sample(directory.path(), 10, 1, 2);
  tidy_up(directory.path(), {1, 10});
  EXPECT_EQ(names_in(directory.path()), (Names{"latest", "step_00000010"}));
  EXPECT_EQ(read_manifest(directory.path() / "step_00000010").sequence, 3);
}

// What is verified is what a later reader finds: COMMIT, the manifest, and each file with its size. A newest one that
// lacks any of it counts for nothing, so the one before it stays.
TEST(Prune, NeverBelowOneVerified) {
  const auto damages = std::to_array<void (*)(const fs::path&)>({
      [](const fs::path& newest) { fs::remove(newest / kCommitName); },
      [](const fs::path& newest) { testing::flip_bit(newest / kManifestName, 10); },
      [](const fs::path& newest) { fs::remove(newest / read_manifest(newest).files[0].name); },
      [](const fs::path& newest) { fs::resize_file(newest / read_manifest(newest).files[0].name, 100); },
  });
  for (const auto damage : damages) {
    const TemporaryDirectory directory;
    const fs::path before = write_sample(directory.path(), 1, 1, 1);
    damage(write_sample(directory.path(), 2, 1, 1));
    tidy_up(directory.path(), 1);
    EXPECT_EQ(open_checkpoint(before).step, 1);
    tidy_up(directory.path(), {1, 2});
    EXPECT_EQ(open_checkpoint(before).step, 1);
  }
}

TEST(Prune, AfterGoingBackTheNewBranchStays) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {100, 200, 300, 150}) write_sample(directory.path(), step, 1, 1);
  tidy_up(directory.path(), 2);
  EXPECT_EQ(names_in(directory.path()), (Names{"latest", "step_00000150", "step_00000300"}));
  EXPECT_EQ(read_text_file(directory.path() / kLatestName), "step_00000150\n");
}

TEST(Prune, DamagedOnesNeitherCountNorGo) {
  const TemporaryDirectory directory;
  std::vector<fs::path> paths;
  for (const std::int64_t step : {1, 2, 3, 4}) paths.push_back(write_sample(directory.path(), step, 1, 1));
  fs::remove(paths[2] / read_manifest(paths[2]).files[0].name);
  tidy_up(directory.path(), 2);
  EXPECT_EQ(names_in(directory.path()), (Names{"latest", "step_00000002", "step_00000003", "step_00000004"}));
}

TEST(Prune, TheLastSoundOneStays) {
  const TemporaryDirectory directory;
  const fs::path sound = write_sample(directory.path(), 1, 1, 1);
  const fs::path damaged = write_sample(directory.path(), 2, 1, 1);
  testing::flip_bit(damaged / kManifestName, 10);
  tidy_up(directory.path(), 1);
  EXPECT_TRUE(fs::exists(sound));
  EXPECT_TRUE(fs::exists(damaged));
}

TEST(Prune, TheUsersFilesStay) {
  const TemporaryDirectory directory;
  fs::create_directories(directory.path() / "step_00000001.mine");
  write_text_file(directory.path() / "notes.tmp", "x");
  fs::create_directories(directory.path() / temporary_directory_name(9, 0, make_checkpoint_id()) / kShardFolder);
  for (const std::int64_t step : {1, 2}) write_sample(directory.path(), step, 1, 1);
  tidy_up(directory.path(), 1);
  EXPECT_EQ(names_in(directory.path()), (Names{"latest", "notes.tmp", "step_00000001.mine", "step_00000002"}));
}

}  // namespace
}  // namespace shoal::checkpoint
