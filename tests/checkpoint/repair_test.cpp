#include "checkpoint/repair.h"

#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/attempt.h"
#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::contents_of;
using testing::TemporaryDirectory;
using testing::write_sample;

int salt_is_step(std::int64_t step) { return static_cast<int>(step); }

fs::path save(const fs::path& directory, std::int64_t step) {
  return write_sample(directory, step, 3, static_cast<int>(step));
}

fs::path shard_of(const fs::path& checkpoint) { return checkpoint / read_manifest(checkpoint).files.at(1).name; }

class RepairAfterDamage : public ::testing::TestWithParam<std::function<void(const fs::path&)>> {};

TEST_P(RepairAfterDamage, TheNextStartResumesFromTheNewestSoundOne) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {10, 20}) save(directory.path(), step);
  for (const std::int64_t step : {30, 40}) GetParam()(save(directory.path(), step));
  tidy_up(directory.path(), 10);
  const auto before = contents_of(directory.path());
  const RepairReport planned = repair_checkpoints(directory.path(), /*dry_run=*/true);
  EXPECT_EQ(contents_of(directory.path()), before);

  const RepairReport report = repair_checkpoints(directory.path(), /*dry_run=*/false, 2);
  ASSERT_EQ(report.damaged.size(), 2u);
  EXPECT_EQ(planned.damaged.size(), 2u);
  EXPECT_EQ(report.newest_sound, directory.path() / step_directory_name(20));
  EXPECT_EQ(read_text_file(directory.path() / kLatestName), "step_00000020\n");
  for (const SetAside& aside : report.damaged) {
    EXPECT_NE(aside.problem.find(aside.path.filename().string()), std::string::npos) << aside.problem;
    EXPECT_FALSE(fs::exists(aside.path));
    EXPECT_TRUE(fs::exists(aside.evidence));
  }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(testing::restored_step(directory.path(), salt_is_step), 20);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");  // nothing to warn of any longer
  EXPECT_TRUE(repair_checkpoints(directory.path(), /*dry_run=*/false).damaged.empty());

  // Nor does any save delete the evidence.
  for (const std::int64_t step : {30, 40, 50}) testing::save_sample(directory.path(), step, 1);
  for (const SetAside& aside : report.damaged) EXPECT_TRUE(fs::exists(aside.evidence));
}

INSTANTIATE_TEST_SUITE_P(, RepairAfterDamage,
                         ::testing::Values([](const fs::path& newest) { fs::remove(newest / kCommitName); },
                                           [](const fs::path& newest) {
                                             testing::flip_bit(newest / kManifestName, 100);
                                           },
                                           [](const fs::path& newest) { fs::remove(shard_of(newest)); },
                                           [](const fs::path& newest) { fs::resize_file(shard_of(newest), 1000); },
                                           [](const fs::path& newest) {
                                             const fs::path shard = shard_of(newest);
                                             for (std::int64_t at = 2048; at < 4096; at += 4)
                                               testing::flip_bit(shard, at);
                                           }));

TEST(Repair, WhereNoneVerifiesNothingChanges) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {10, 20}) fs::remove(shard_of(save(directory.path(), step)));
  const auto before = contents_of(directory.path());
  EXPECT_THROW(repair_checkpoints(directory.path(), /*dry_run=*/false), CheckpointError);
  EXPECT_EQ(contents_of(directory.path()), before);
  EXPECT_THROW(repair_checkpoints(directory.path() / "missing", /*dry_run=*/false), CheckpointError);
}

TEST(Repair, ItSupersedesNobody) {
  const TemporaryDirectory directory;
  const Fence job = testing::new_attempt(directory.path());
  for (const std::int64_t step : {10, 20}) testing::save_sample(directory.path(), step, salt_is_step(step), {}, job);
  fs::remove(shard_of(directory.path() / step_directory_name(20)));
  EXPECT_EQ(repair_checkpoints(directory.path(), /*dry_run=*/false).damaged.size(), 1u);
  EXPECT_NO_THROW(job.check());
  testing::save_sample(directory.path(), 20, 20, {}, job);
  EXPECT_EQ(testing::restored_step(directory.path(), salt_is_step), 20);
}

TEST(Fence, AWatcherSeesANewAttempt) {
  const TemporaryDirectory directory;
  const Fence before_any = Fence::watch(directory.path());
  EXPECT_NO_THROW(before_any.check());
  const Fence first = testing::new_attempt(directory.path());
  EXPECT_THROW(before_any.check(), SupersededError);
  const Fence watcher = Fence::watch(directory.path());
  EXPECT_EQ(watcher.number(), first.number());
  const Fence waiting = Fence::take(directory.path(), 0, "host waiting");
  EXPECT_NO_THROW(watcher.check());
  waiting.enter();
  EXPECT_THROW(watcher.check(), SupersededError);
}

}  // namespace
}  // namespace shoal::checkpoint
