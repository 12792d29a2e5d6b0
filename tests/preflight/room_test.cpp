// The directory of checkpoints: space, quotas, mounts, exclusive files, trial files.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/error.h"
#include "preflight/filesystem.h"
#include "preflight/guard.h"
#include "preflight/mounts.h"
#include "preflight/scratch.h"
#include "preflight/space.h"
#include "preflight/trial_files.h"

namespace shoal::preflight {
namespace {

namespace fs = std::filesystem;
constexpr double kGiB = 1 << 30;

class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "preflight-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(Space, AgainstWhatCheckpointsNeed) {
  const Space space{"lustre", 10 * kGiB, 1e6};
  EXPECT_EQ(judge_space(space, 10 * kGiB).verdict, Verdict::ok);
  const Record full = judge_space(space, 11 * kGiB);
  EXPECT_EQ(full.verdict, Verdict::fail);
  EXPECT_EQ(full.code, ExitCode::io);
  EXPECT_EQ(full.found, "lustre, 10 GiB free, 1e+06 inodes");
  EXPECT_NE(full.advice.find("need 11 GiB"), std::string::npos);
  EXPECT_NE(judge_space(space, 0).found.find("--checkpoint-gib"), std::string::npos);
  EXPECT_EQ(judge_space({"ext4", 10 * kGiB, 100}, kGiB).verdict, Verdict::warn);
  EXPECT_EQ(judge_space({"btrfs", 10 * kGiB, {}}, kGiB).verdict, Verdict::ok);
}

TEST(Space, OfThisMachine) {
  const Folder folder;
  const Space space = read_space(folder.path());
  EXPECT_GT(space.free_bytes, 0);
  EXPECT_FALSE(space.type.empty());
  EXPECT_EQ(std::string(filesystem_name(0x0BD00BD0)), "lustre");
  EXPECT_THROW(read_space(folder.path() / "none"), IoError);
}

TEST(Quota, LinesOfLustre) {
  const auto quota = parse_quota("      /lustre/work  1048576* 524288 2097152 6d2h  10   0   100   -\n", "");
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->used_bytes, kGiB);
  EXPECT_EQ(quota->limit_bytes, 2 * kGiB);
  EXPECT_EQ(quota->used_files, 10);
  EXPECT_EQ(quota->limit_files, 100);
  const auto wrapped = parse_quota("/a/very/long/name/of/a/mount\n     4  0  0  -  1  0  0  -\n", "");
  ASSERT_TRUE(wrapped);
  EXPECT_EQ(wrapped->used_bytes, 4096);
  EXPECT_FALSE(wrapped->limit_bytes) << "0 is no limit";
}

TEST(Quota, LinesOfQuota) {
  const std::string text =
      "Disk quotas for user someone (uid 1000): \n"
      "     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\n"
      "     /dev/sda1  100  200  0  0  5  0  0  0\n"
      "  nas:/home  300  0  400  0  6  0  0  0\n";
  EXPECT_EQ(parse_quota(text, "/dev/sda1")->limit_bytes, 200 * 1024.0) << "the soft one where no hard one is";
  EXPECT_EQ(parse_quota(text, "nas:/home")->limit_bytes, 400 * 1024.0);
  EXPECT_FALSE(parse_quota(text, "nas:/work"));
  EXPECT_FALSE(parse_quota("Disk quotas for user someone (uid 1000): none\n", "/dev/sda1"));
  EXPECT_FALSE(parse_quota("", ""));
}

TEST(Quota, Judged) {
  const Quota quota{"lfs quota -u", 8 * kGiB, 10 * kGiB, 10, 100};
  EXPECT_EQ(judge_quota(quota, "", 2 * kGiB).verdict, Verdict::ok);
  EXPECT_EQ(judge_quota(quota, "", 3 * kGiB).verdict, Verdict::fail);
  EXPECT_EQ(judge_quota(Quota{"q", 10 * kGiB, 10 * kGiB, 10, {}}, "", 0).verdict, Verdict::fail);
  EXPECT_EQ(judge_quota(Quota{"q", 0, {}, 100, 100}, "", 0).verdict, Verdict::fail);
  EXPECT_EQ(judge_quota(std::nullopt, "nobody knows", 1).found, "nobody knows");
  EXPECT_EQ(judge_quota(std::nullopt, "nobody knows", 1).verdict, Verdict::skipped);
}

TEST(Quota, TheTighterOfUserAndGroupOnLustre) {
  std::vector<std::string> asked;
  const auto lfs = [&](const std::vector<std::string>& command, std::chrono::milliseconds) {
    asked.push_back(command[3]);
    const bool user = command[3] == "-u";
    return launch::CommandResult{
        .started = true, .exit_code = 0, .output = user ? "/l 100 0 1000 - 1 0 0 -\n" : "/l 700 0 1000 - 1 0 0 -\n"};
  };
  std::string none;
  const auto quota = read_quota("/tmp", "lustre", none, lfs);
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->source, "lfs quota -g");
  EXPECT_EQ(asked, (std::vector<std::string>{"-u", "-g"}));
  const auto absent = [](const std::vector<std::string>&, std::chrono::milliseconds) {
    return launch::CommandResult{.error = "no such program"};
  };
  EXPECT_FALSE(read_quota("/tmp", "lustre", none, absent));
  EXPECT_NE(none.find("lfs quota"), std::string::npos) << none;
}

TEST(Mounts, TheNearestAndLatestAbove) {
  const Folder folder;
  const fs::path table = folder.path() / "mounts";
  std::ofstream(table) << "/dev/a / ext4 rw 0 0\nnas:/w /work nfs4 rw 0 0\nl:/s /work/a lustre rw 0 0\n"
                          "over /work/a tmpfs rw 0 0\nnas:/x /works nfs4 rw 0 0\n";
  EXPECT_EQ(find_mount("/work/b/c", table)->source, "nas:/w");
  EXPECT_EQ(find_mount("/work/a/c", table)->type, "tmpfs");
  EXPECT_EQ(find_mount("/home", table)->source, "/dev/a");
  EXPECT_EQ(find_mount("/worksheet", table)->source, "/dev/a");
  EXPECT_FALSE(find_mount("/work", folder.path() / "none"));
}

TEST(Exclusive, OneWinnerForEachName) {
  for (const Record& record : judge_exclusive({{0, 2}, {1}, {}}, 3)) EXPECT_EQ(record.verdict, Verdict::ok);
  const auto twice = judge_exclusive({{0, 1, 2}, {1}, {}}, 3);
  EXPECT_EQ(twice[0].verdict, Verdict::fail);
  EXPECT_EQ(twice[0].found, "1 of 3 files were made by this rank and by another");
  EXPECT_EQ(twice[1].verdict, Verdict::fail);
  EXPECT_EQ(twice[2].verdict, Verdict::ok);
  for (const Record& record : judge_exclusive({{0}, {1}}, 3)) EXPECT_EQ(record.verdict, Verdict::fail) << "none made 2";
}

TEST(Speeds, AllTogetherAndTheSlow) {
  const std::vector<FileSpeed> speeds{{1 << 30, 1}, {1 << 30, 2}, {0, 0}};
  EXPECT_EQ(summary_of(speeds), "1.07 GB/s in all, 0.537 … 1.07 GB/s, median 0.805 a rank, 1024 MiB each");
  EXPECT_EQ(summary_of({{0, 0}}), "nothing could be measured");
  std::vector<Record> records{{.host = "a", .value = 0.3},
                              {.host = "a", .value = 1.7},
                              {.host = "b", .value = 1.1},
                              {.host = "c", .value = 0.4},
                              {.host = "d"}};
  warn_of_slow(records);
  EXPECT_EQ(records[3].verdict, Verdict::warn);
  EXPECT_EQ(records[3].found, "0.4 GB/s a rank, the median of all hosts is 1");
  for (const std::size_t i : {0, 1, 2, 4}) EXPECT_EQ(records[i].verdict, Verdict::ok) << "ranks of a node share it";
}

TEST(TrialFiles, ReadBackWhatWasWrittenAndSeeEveryChange) {
  const Folder folder;
  const fs::path path = folder.path() / "data";
  constexpr std::int64_t kBytes = (5 << 20) + 8;
  EXPECT_EQ(write_pattern(path, kBytes, 3, std::chrono::seconds(60)).bytes, kBytes);
  EXPECT_EQ(read_pattern(path, kBytes, 3).bytes, kBytes);
  EXPECT_THROW(read_pattern(path, kBytes, 4), IoError) << "another rank's";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5 << 20).put('x').flush();
  try {
    read_pattern(path, kBytes, 3);
    ADD_FAILURE() << "a wrong byte was not seen";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("does not hold what was written"), std::string::npos);
  }
  EXPECT_EQ(write_pattern(path, kBytes, 3, std::chrono::milliseconds(0)).bytes, 0) << "no time";
}

TEST(TrialFiles, LocksAndCommits) {
  const Folder folder;
  const LockAttempt first = try_lock(folder.path() / "lock");
  EXPECT_FALSE(first.busy);
  EXPECT_TRUE(try_lock(folder.path() / "lock").busy);
  EXPECT_GT(time_commit(folder.path(), "file"), 0);
  EXPECT_FALSE(fs::exists(folder.path() / "file.part"));
  EXPECT_LT(wait_for_text(folder.path() / "none", "x", std::chrono::milliseconds(30)), 0);
  EXPECT_GE(wait_for_text(folder.path() / "file", "new", std::chrono::milliseconds(30)), 0);
}

TEST(Scratch, LeavesNothingButWhatOthersMade) {
  const Folder folder;
  Guard guard(std::chrono::minutes(1));
  {
    Scratch scratch(guard, folder.path() / "a" / "b", "s");
    scratch.adopt(missing_directories(folder.path() / "a" / "b"));
    scratch.make();
    std::ofstream(scratch.path() / "file") << "x";
    EXPECT_TRUE(fs::exists(folder.path() / "a" / "b" / "s" / "file"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  {
    Scratch scratch(guard, folder.path() / "a" / "b", "s");
    scratch.adopt(missing_directories(folder.path() / "a" / "b"));
    scratch.make();
    std::ofstream(folder.path() / "a" / "theirs") << "x";
  }
  EXPECT_FALSE(fs::exists(folder.path() / "a" / "b"));
  EXPECT_TRUE(fs::exists(folder.path() / "a" / "theirs"));
}

// What is left after a process with a scratch folder was ended by its guard; its exit code.
int ended(const fs::path& directory, std::chrono::milliseconds limit, int signal) {
  const pid_t child = fork();
  if (child == 0) {
    Guard guard(limit);
    guard.set_activity("a wait");
    Scratch scratch(guard, directory, "s");
    scratch.adopt(missing_directories(directory));
    scratch.make();
    std::ofstream(scratch.path() / "file") << "x";
    if (signal != 0) raise(signal);
    sleep(30);
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Guard, EndsTheProcessAndLeavesNothing) {
  const Folder folder;
  EXPECT_EQ(ended(folder.path() / "a", std::chrono::minutes(1), SIGTERM), 128 + SIGTERM);
  EXPECT_EQ(ended(folder.path() / "a", std::chrono::minutes(1), SIGUSR1), 128 + SIGUSR1);
  EXPECT_EQ(ended(folder.path() / "a", std::chrono::milliseconds(200), 0), static_cast<int>(ExitCode::communication));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace shoal::preflight
