// shoal ckpt prune: what goes, what stays, and what a job that runs meanwhile has to fear. Nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/prune.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::write_sample;
using Steps = std::vector<std::int64_t>;

class PruneTool : public ::testing::Test {
 protected:
  fs::path save(std::int64_t step) const { return write_sample(directory_.path(), step, 2, static_cast<int>(step)); }
  PruneOptions options(int keep, std::int64_t keep_every = 0) const {
    PruneOptions options;
    options.directory = directory_.path();
    options.keep = keep;
    options.keep_every = keep_every;
    return options;
  }
  Steps steps() const {
    Steps steps;
    for (const CatalogEntry& entry : list_checkpoints(directory_.path())) steps.push_back(entry.step);
    return steps;
  }
  static void damage_elements(const fs::path& checkpoint) {  // sizes and tables stay as they are
    const fs::path shard = checkpoint / read_manifest(checkpoint).files[0].name;
    for (std::int64_t at = 0; verify(checkpoint).problem_count() == 0; at += 16) {
      testing::flip_bit(shard, at);
      if (verify(checkpoint).files[0].problems.empty() || !verify(checkpoint).files[0].problems[0].region)
        testing::flip_bit(shard, at);
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(PruneTool, TheNewestAndEveryKthStay) {
  for (const std::int64_t step : {10, 20, 30, 40, 50, 60}) save(step);
  PruneOptions wanted = options(2, 20);
  wanted.dry_run = true;
  const PruneReport planned = prune_checkpoints(wanted);
  EXPECT_EQ(steps(), (Steps{60, 50, 40, 30, 20, 10}));
  wanted.dry_run = false;
  const PruneReport report = prune_checkpoints(wanted);
  EXPECT_EQ(steps(), (Steps{60, 50, 40, 20}));
  EXPECT_EQ(report.verified, directory_.path() / step_directory_name(60));
  ASSERT_EQ(report.checkpoints.size(), planned.checkpoints.size());
  for (std::size_t i = 0; i < report.checkpoints.size(); ++i)
    EXPECT_EQ(report.checkpoints[i].fate, planned.checkpoints[i].fate);
  EXPECT_EQ(testing::temporaries_in(directory_.path()), 0);
}

TEST_F(PruneTool, NewestIsWhatWasSavedLast) {
  for (const std::int64_t step : {100, 200, 300, 150}) save(step);
  prune_checkpoints(options(1));
  EXPECT_EQ(steps(), (Steps{150}));
}

TEST_F(PruneTool, NothingToDeleteReadsNothing) {
  damage_elements(save(10));
  EXPECT_TRUE(prune_checkpoints(options(1)).verified.empty());
  EXPECT_EQ(steps(), (Steps{10}));
}

TEST_F(PruneTool, TheLastThatVerifiesStays) {
  for (const std::int64_t step : {10, 20}) save(step);
  for (const std::int64_t step : {30, 40}) damage_elements(save(step));
  const PruneReport report = prune_checkpoints(options(2));
  EXPECT_EQ(steps(), (Steps{40, 30, 20}));
  EXPECT_EQ(report.verified, directory_.path() / step_directory_name(20));
}

TEST_F(PruneTool, WhereNoneVerifiesNothingGoes) {
  for (const std::int64_t step : {10, 20}) damage_elements(save(step));
  EXPECT_THROW(prune_checkpoints(options(1)), CheckpointError);
  EXPECT_EQ(steps(), (Steps{20, 10}));
}

TEST_F(PruneTool, DamagedOnesNeitherCountNorGo) {
  for (const std::int64_t step : {10, 20, 30}) save(step);
  fs::remove(save(40) / kCommitName);
  const PruneReport report = prune_checkpoints(options(1));
  EXPECT_EQ(steps(), (Steps{40, 30}));
  EXPECT_EQ(report.checkpoints[0].fate, Fate::left);
  EXPECT_NE(report.checkpoints[0].reason.find("COMMIT"), std::string::npos);
}

TEST_F(PruneTool, WhatASaveIsWritingStays) {
  for (const std::int64_t step : {10, 20}) save(step);
  const fs::path under_way = directory_.path() / temporary_directory_name(30, 1, make_checkpoint_id());
  fs::create_directories(under_way / kShardFolder);
  // A save of step 10 stands between its two renames.
  const fs::path displaced = directory_.path() / displaced_directory_name(10, make_checkpoint_id());
  fs::rename(directory_.path() / step_directory_name(10), displaced);
  prune_checkpoints(options(1));
  EXPECT_TRUE(fs::exists(under_way));
  EXPECT_TRUE(fs::exists(displaced));
  save(10);  // from now on there is a newer one of this step; that save has put the old one back and displaced it again
  prune_checkpoints(options(2));
  EXPECT_EQ(steps(), (Steps{10, 20}));
}

// At each of the points of a removal.
TEST_F(PruneTool, ANewAttemptEndsIt) {
  for (const SavePoint point : {SavePoint::removal_allowed, SavePoint::old_set_aside}) {
    const TemporaryDirectory directory;
    const Fence job = testing::new_attempt(directory.path());
    for (const std::int64_t step : {10, 20, 30}) write_sample(directory.path(), step, 2, 1);
    PruneOptions wanted;
    wanted.directory = directory.path();
    std::vector<CatalogEntry> found;
    wanted.observer = [&](SavePoint passed) {
      if (passed != point || !found.empty()) return;
      testing::new_attempt(directory.path());
      found = list_checkpoints(directory.path());
    };
    EXPECT_THROW(prune_checkpoints(wanted), SupersededError);
    // All that the new attempt has found is there.
    ASSERT_FALSE(found.empty());
    for (const CatalogEntry& entry : found) EXPECT_EQ(verify(entry.path).problem_count(), 0);
    EXPECT_EQ(testing::temporaries_in(directory.path()), 0);
  }
}

TEST_F(PruneTool, ItSupersedesNobody) {
  const Fence job = testing::new_attempt(directory_.path());
  for (const std::int64_t step : {10, 20}) testing::save_sample(directory_.path(), step, 1, {}, job);
  prune_checkpoints(options(1));
  EXPECT_NO_THROW(job.check());
  testing::save_sample(directory_.path(), 30, 1, {}, job);
  EXPECT_EQ(steps(), (Steps{30, 20}));
}

// Neither is in the other's way, however they meet: every save succeeds, and the newest is there at any time.
TEST_F(PruneTool, BesideASavingJob) {
  constexpr std::int64_t kSaves = 15;
  std::atomic<std::int64_t> saved{0};
  const Fence job = testing::new_attempt(directory_.path());
  ::testing::internal::CaptureStderr();
  std::jthread saving([&] {
    for (std::int64_t step = 1; step <= kSaves; ++step, ++saved)
      testing::save_sample(directory_.path(), step, 1, {}, job);  // an error ends the test
  });
  int pruned = 0;
  while (saved < kSaves) {
    const std::int64_t before = saved;
    try {
      for (const PrunedCheckpoint& checkpoint : prune_checkpoints(options(1)).checkpoints)
        pruned += checkpoint.fate == Fate::removed;
    } catch (const IoError&) {  // the job has deleted one that was about to be looked at
    } catch (const CheckpointError&) {
      EXPECT_EQ(before, 0);  // there was none yet
    }
    EXPECT_GE(before > 0 ? steps().front() : 0, before);
  }
  saving.join();
  ::testing::internal::GetCapturedStderr();
  EXPECT_GT(pruned, 0);
  EXPECT_EQ(steps().front(), kSaves);
  for (const CatalogEntry& entry : list_checkpoints(directory_.path()))
    EXPECT_EQ(verify(entry.path).problem_count(), 0);
  EXPECT_NO_THROW(job.check());
}

// A job that has gone back saves the step anew while its old checkpoint is about to go.
TEST_F(PruneTool, AnotherCheckpointOfTheSameNameStays) {
  for (const std::int64_t step : {10, 20}) save(step);
  PruneOptions wanted = options(1);
  wanted.observer = [&](SavePoint point) {
    if (point == SavePoint::removal_allowed) save(10);
  };
  EXPECT_THROW(prune_checkpoints(wanted), IoError);
  EXPECT_EQ(verify(directory_.path() / step_directory_name(10)).problem_count(), 0);
  EXPECT_EQ(steps().front(), 10);
}

TEST_F(PruneTool, WrongUsage) {
  const fs::path one = save(10);
  EXPECT_THROW(prune_checkpoints(options(0)), OptionError);
  PruneOptions wanted = options(1);
  wanted.directory = one;
  EXPECT_THROW(prune_checkpoints(wanted), OptionError);
  wanted.directory = directory_.path() / "missing";
  EXPECT_THROW(prune_checkpoints(wanted), CheckpointError);
}

}  // namespace
}  // namespace shoal::checkpoint
