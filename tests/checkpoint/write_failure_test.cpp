// Every call of a save to the disk fails once, and from then on, in each way in which disks fail: one error on all
// ranks or a complete checkpoint, nothing lost, and the next save works.
#include <gtest/gtest.h>

#include <cerrno>

#include "checkpoint/catalog.h"
#include "checkpoint/numbered_saves.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "support/faulty_files.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::Fault;
using testing::FaultyFiles;
using testing::restore_numbered;
using testing::save_numbered;
using testing::TemporaryDirectory;

constexpr int kRanks = 2;
constexpr std::int64_t kForEver = 1'000'000;

struct Failure {
  const char* name;
  int error;
  const char* reason;
  std::int64_t times;
};

std::ostream& operator<<(std::ostream& out, const Failure& failure) { return out << failure.name; }

class EveryCallFails : public ::testing::TestWithParam<Failure> {
 protected:
  // With the call number `at` of the third save failing. False once the save makes no such call.
  bool save_with_failure(std::int64_t at) {
    const TemporaryDirectory directory{testing::memory_folder()};
    FaultyFiles files(directory.path(), 1);
    for (const int number : {1, 2}) EXPECT_TRUE(save_numbered(directory.path(), kRanks, number, number).saved);
    files.plan({.kind = Fault::Kind::fail, .at = at, .error = GetParam().error, .times = GetParam().times});
    const auto outcome = save_numbered(directory.path(), kRanks, 3, 3);
    const bool struck = files.struck();
    files.restart();
    check(outcome, directory.path());
    EXPECT_TRUE(save_numbered(directory.path(), kRanks, 4, 4).saved);
    testing::expect_settled(directory.path());
    EXPECT_EQ(list_checkpoints(directory.path()).size(), 2u);
    EXPECT_EQ(restore_numbered(directory.path(), 1)->number, 4);
    failed_ += !outcome.saved;
    return struck;
  }

  void check(const testing::SaveOutcome& outcome, const fs::path& directory) {
    const auto found = restore_numbered(directory, 1);
    ASSERT_TRUE(found);
    if (outcome.saved) {
      EXPECT_EQ(found->number, 3);
      return;
    }
    EXPECT_EQ(outcome.code, ExitCode::io);
    EXPECT_NE(outcome.error.find(GetParam().reason), std::string::npos) << outcome.error;
    // Where the last sync is what failed, the new one may be there: complete, though nobody vouches for it.
    EXPECT_GE(found->number, 2);
    EXPECT_EQ(verify(directory / "step_00000002").problem_count(), 0);
  }

  int failed_ = 0;
};

TEST_P(EveryCallFails, OneErrorAndNothingLost) {
  const testing::QuietErrors quiet;
  std::int64_t at = 0;
  while (save_with_failure(at) && !HasFailure()) {
    SCOPED_TRACE(at);
    ++at;
  }
  std::printf("%lld calls, %d of which a save cannot do without\n", static_cast<long long>(at), failed_);
  EXPECT_GT(at, 40);
  EXPECT_GT(failed_, 25);
}

INSTANTIATE_TEST_SUITE_P(, EveryCallFails,
                         ::testing::Values(Failure{"full_once", ENOSPC, "No space left on device; free some space", 1},
                                           Failure{"full", ENOSPC, "No space left on device; free some space",
                                                   kForEver},
                                           Failure{"quota", EDQUOT, "your quota is used up", kForEver},
                                           Failure{"broken_once", EIO, "Input/output error", 1},
                                           Failure{"broken", EIO, "Input/output error", kForEver}),
                         [](const auto& instance) { return instance.param.name; });

// A disk that is full takes no new bytes and no new names; what is renamed and removed needs none.
TEST(FullDisk, StaysUsableForWhatNeedsNoRoom) {
  const testing::QuietErrors quiet;
  const TemporaryDirectory directory{testing::memory_folder()};
  FaultyFiles files(directory.path(), 1);
  for (const int number : {1, 2}) ASSERT_TRUE(save_numbered(directory.path(), kRanks, number, number).saved);
  // Full from the moment on when `latest` is to be written: the old one must not go on naming what is pruned.
  files.plan({.kind = Fault::Kind::fail,
              .at = 0,
              .error = ENOSPC,
              .times = kForEver,
              .counts = [](testing::FileCall call, const fs::path& path) {
                return call == testing::FileCall::pwrite && path.filename() == "latest.tmp";
              }});
  for (const int number : {3, 4}) EXPECT_TRUE(save_numbered(directory.path(), kRanks, number, number).saved);
  EXPECT_TRUE(files.struck());
  testing::expect_settled(directory.path());
  EXPECT_EQ(list_checkpoints(directory.path()).size(), 2u);
}

TEST(ShortWrites, AreGoneOnWith) {
  const TemporaryDirectory directory{testing::memory_folder()};
  FaultyFiles files(directory.path(), 1);
  std::int64_t at = 0;
  for (bool struck = true; struck; ++at) {
    files.plan({.kind = Fault::Kind::shorten, .at = at, .counts = [](testing::FileCall call, const fs::path&) {
                  return call == testing::FileCall::pwrite;
                }});
    ASSERT_TRUE(save_numbered(directory.path(), kRanks, at, static_cast<int>(at)).saved);
    struck = files.struck();
    ASSERT_EQ(restore_numbered(directory.path(), 3)->number, at);
  }
  EXPECT_GT(at, 10);
}

TEST(SlowWrites, OfOneRankAreWaitedFor) {
  const TemporaryDirectory directory{testing::memory_folder()};
  FaultyFiles files(directory.path(), 1);
  files.plan({.kind = Fault::Kind::delay,
              .at = 2,
              .delay = std::chrono::milliseconds(300),
              .counts = [](testing::FileCall, const fs::path& path) {
                return path.string().find("_rank_00001") != std::string::npos;
              }});
  EXPECT_TRUE(save_numbered(directory.path(), kRanks, 1, 1).saved);
  EXPECT_TRUE(files.struck());
  EXPECT_EQ(restore_numbered(directory.path(), 1)->number, 1);
}

// The real signal, at any call instead of at the points that a save passes.
TEST(KilledAtACall, TheNextOneGoesOn) {
  const testing::QuietErrors quiet;
  const TemporaryDirectory directory{testing::memory_folder()};
  ASSERT_TRUE(save_numbered(directory.path(), 1, 1, 1).saved);
  int killed = 0;
  for (int number = 2; number < 22; ++number) {
    const int status = testing::status_of_child([&] {
      FaultyFiles files(directory.path(), 1);
      files.plan({.kind = Fault::Kind::kill, .at = 3 * (number - 2)});
      save_numbered(directory.path(), 1, number, number);
    });
    killed += testing::was_killed(status);
    const auto found = restore_numbered(directory.path(), 2);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->number == 1 || found->number <= number);
  }
  EXPECT_GT(killed, 10);
  EXPECT_TRUE(save_numbered(directory.path(), 1, 30, 30).saved);
  testing::expect_settled(directory.path());
}

}  // namespace
}  // namespace shoal::checkpoint
