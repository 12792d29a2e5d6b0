// Every read of a restore fails once, and from then on, or gives less than was asked for: one error on all ranks that
// names the file and the reason, or the state as it was saved; and what is on the disk stays sound.
#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>

#include "checkpoint/checkpointer.h"
#include "checkpoint/numbered_saves.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/verify.h"
#include "comm/fake_process_group.h"
#include "core/error.h"
#include "support/faulty_files.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::Fault;
using testing::FaultyFiles;
using testing::TemporaryDirectory;

constexpr int kSaved = 3;
constexpr std::int64_t kForEver = 1'000'000;

bool is_read(testing::FileCall call, const fs::path&) { return call == testing::FileCall::pread; }

// Collectively on `ranks` threads. The error of all ranks alike; empty where all have the state of step 1.
std::string restore_error(const fs::path& from, int ranks) {
  std::mutex mutex;
  std::vector<std::string> errors;
  comm::FakeWorld(ranks).run([&](comm::ProcessGroup& world) {
    StateDict state = testing::blank_state(testing::sample_tensors(), world.rank(), ranks);
    std::string error;
    try {
      Checkpointer(world, {from.parent_path()}).restore(state, from);
      EXPECT_TRUE(
          testing::same_elements(state, testing::sample_state(testing::sample_tensors(), world.rank(), ranks, 1)));
    } catch (const Error& caught) {
      error = caught.what();
      EXPECT_TRUE(caught.exit_code() == ExitCode::checkpoint || caught.exit_code() == ExitCode::io) << error;
    }
    const std::lock_guard lock(mutex);
    errors.push_back(error);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
  return errors[0];
}

class EveryReadFails : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(EveryReadFails, OneErrorThatNamesTheFile) {
  const TemporaryDirectory directory{testing::memory_folder()};
  const fs::path checkpoint = testing::write_sample(directory.path(), 1, kSaved, 1);
  for (const int ranks : {1, 2, kSaved}) {
    FaultyFiles files(directory.path(), 1);
    std::int64_t at = 0;
    for (;; ++at) {
      SCOPED_TRACE(fmt::format("read {} of {} ranks", at, ranks));
      files.plan({.kind = Fault::Kind::fail, .at = at, .error = EIO, .times = GetParam(), .counts = is_read});
      const std::string error = restore_error(checkpoint, ranks);
      if (!files.struck()) break;
      EXPECT_NE(error.find(checkpoint.string()), std::string::npos) << error;
      EXPECT_NE(error.find("Input/output error"), std::string::npos) << error;
      if (HasFailure()) return;
    }
    EXPECT_GT(at, 20);
    files.restart();
    EXPECT_EQ(restore_error(checkpoint, ranks), "");
  }
  EXPECT_EQ(verify(checkpoint).problem_count(), 0);
}

INSTANTIATE_TEST_SUITE_P(, EveryReadFails, ::testing::Values(1, kForEver));

TEST(ShortReads, AreGoneOnWith) {
  const TemporaryDirectory directory{testing::memory_folder()};
  const fs::path checkpoint = testing::write_sample(directory.path(), 1, kSaved, 1);
  FaultyFiles files(directory.path(), 1);
  std::int64_t at = 0;
  for (bool struck = true; struck; ++at) {
    files.plan({.kind = Fault::Kind::shorten, .at = at, .counts = is_read});
    EXPECT_EQ(restore_error(checkpoint, 2), "");
    struck = files.struck();
  }
  EXPECT_GT(at, 20);
}

// With --resume auto an unreadable checkpoint is given up for the one before, loudly.
TEST(EveryReadFailsOfTheNewest, TheOneBeforeIsTaken) {
  const testing::QuietErrors quiet;
  const TemporaryDirectory directory{testing::memory_folder()};
  for (const int number : {1, 2}) ASSERT_TRUE(testing::save_numbered(directory.path(), 2, number, number).saved);
  FaultyFiles files(directory.path(), 1);
  files.plan({.kind = Fault::Kind::fail,
              .at = 0,
              .error = EIO,
              .times = kForEver,
              .counts = [](testing::FileCall call, const fs::path& path) {
                return call == testing::FileCall::pread &&
                       path.string().find("/step_00000002/shards/") != std::string::npos;
              }});
  const auto found = testing::restore_numbered(directory.path(), 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 1);
  EXPECT_TRUE(files.struck());
}

}  // namespace
}  // namespace shoal::checkpoint
