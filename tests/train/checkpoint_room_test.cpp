// Room for checkpoints, before the first step.
#include "train/checkpoint_room.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include "checkpoint/sample_state.h"
#include "core/error.h"

namespace shoal::train {
namespace {

constexpr double kMiB = 1 << 20;
const RoomNeeded kNeeded{.directory = "ck", .bytes = 10 * kMiB, .files = 12, .keep = 2};

std::string error_of(const RoomNeeded& needed, const RoomTaken& taken, const RoomLeft& left) {
  try {
    judge_room(needed, taken, left);
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckpointRoom, NotOneFits) {
  EXPECT_EQ(error_of(kNeeded, {}, {"free there (ext4)", 9.5 * kMiB, {}}),
            "--checkpoint-dir ck: a checkpoint takes 10.0 MiB, and 9.5 MiB are free there (ext4): make room there, or "
            "give another --checkpoint-dir");
  EXPECT_EQ(error_of(kNeeded, {}, {"left of your quota (quota)", {}, 11.0}),
            "--checkpoint-dir ck: a checkpoint takes 12 files, and 11 files are left of your quota (quota): make room "
            "there, or give another --checkpoint-dir");
  // Those that are there do not help: the next one is written before any of them goes.
  EXPECT_NE(error_of(kNeeded, {20 * kMiB, 24}, {"free", 9.5 * kMiB, {}}), "");
  EXPECT_NE(error_of({.directory = "ck", .bytes = 3e12, .files = 1}, {}, {"free", 2e12, {}}).find("takes 2794.0 GiB"),
            std::string::npos);
}

TEST(CheckpointRoom, FewerThanAreToBeKeptFit) {
  const auto warning = [](double taken, double left) {
    return judge_room(kNeeded, {taken * kMiB, 0}, {"free there (ext4)", left * kMiB, {}});
  };
  EXPECT_EQ(warning(0, 30), "");
  EXPECT_EQ(warning(0, 29),
            "--checkpoint-dir ck: 3 checkpoints (--keep 2, and one being written) take 30.0 MiB, of which 0.0 MiB are "
            "there already, and 29.0 MiB are free there (ext4): a later save will fail unless you make room, or --keep "
            "fewer");
  EXPECT_EQ(warning(10, 20), "");
  EXPECT_NE(warning(10, 19), "");
  EXPECT_EQ(warning(20, 10), "");
  EXPECT_NE(judge_room(kNeeded, {0, 12}, {"free", {}, 23.0}).find("36 files, of which 12 files"), std::string::npos);
}

TEST(CheckpointRoom, WhatIsThere) {
  const testing::TemporaryDirectory directory;
  EXPECT_EQ(room_taken(directory.path() / "none", 2).bytes, 0);
  std::vector<std::filesystem::path> paths;
  for (const int step : {1, 2, 3, 4}) paths.push_back(testing::write_sample(directory.path(), step, 3, 1));
  const RoomTaken one = room_taken(directory.path(), 1), two = room_taken(directory.path(), 2);
  EXPECT_GT(one.bytes, 1000);
  EXPECT_EQ(one.files, 7);
  EXPECT_EQ(two.files, 14);
  std::filesystem::remove(paths[3] / "COMMIT");
  EXPECT_EQ(room_taken(directory.path(), 10).files, 21) << "a damaged one makes room for nothing";
}

TEST(CheckpointRoom, AQuotaCountsLikeTheDisk) {
  const testing::TemporaryDirectory directory;
  const auto with_quota = [&](const char* limit) {
    const auto answer = [&](const std::vector<std::string>& command, std::chrono::milliseconds) {
      launch::CommandResult result;
      result.started = command[0] == "quota";
      result.exit_code = 0;
      // Under every name that the mount may have.
      result.output = fmt::format("     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\n");
      for (const char* name : {"/dev/vda", "overlay", "tmpfs", "/dev/sda1", "/dev/root"})
        result.output += fmt::format("     {}  1024  0  {}  0  5  0  0  0\n", name, limit);
      return result;
    };
    return check_room({.directory = directory.path(), .bytes = 2 * kMiB, .files = 3, .keep = 2}, directory.path(),
                      answer);
  };
  if (with_quota("5120").empty()) GTEST_SKIP() << "the file system here has another name, or a quota of its own";
  EXPECT_NE(with_quota("5120")[0].find("4.0 MiB are left of your quota (quota)"), std::string::npos);
  EXPECT_THROW(with_quota("2048"), IoError);
  EXPECT_TRUE(with_quota("102400").empty());
}

TEST(CheckpointRoom, OfARealSmallDisk) {
  const testing::TemporaryDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=4m,nr_inodes=64") != 0)
    GTEST_SKIP() << "mounting a tmpfs needs root and its capabilities";
  const auto check = [&](double mib, double files) {
    return check_room({.directory = directory.path() / "ck", .bytes = mib * kMiB, .files = files, .keep = 2},
                      directory.path());
  };
  EXPECT_TRUE(check(1, 5).empty());
  const auto warnings = check(2, 5);
  const auto few_inodes = check(0.1, 30);
  std::string error;
  try {
    check(5, 5);
  } catch (const IoError& thrown) {
    error = thrown.what();
  }
  ::umount2(directory.path().c_str(), MNT_DETACH);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("take 6.0 MiB"), std::string::npos) << warnings[0];
  ASSERT_EQ(few_inodes.size(), 1u);
  EXPECT_NE(few_inodes[0].find("take 90 files"), std::string::npos) << few_inodes[0];
  EXPECT_NE(error.find("a checkpoint takes 5.0 MiB, and 4.0 MiB are free there (tmpfs)"), std::string::npos) << error;
}

}  // namespace
}  // namespace shoal::train
