// A thousand jobs that stop at some call to the disk, half of them with the machine: what was committed is found again,
// what was not is not, and the next attempt puts the directory in order. SHOAL_FAULT_STOPS and SHOAL_FAULT_SEED choose
// others.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "checkpoint/fence.h"
#include "checkpoint/numbered_saves.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"
#include "core/file_io.h"
#include "support/faulty_files.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::Fault;
using testing::FaultyFiles;
using testing::Found;
using testing::restore_numbered;
using testing::save_numbered;
using testing::TemporaryDirectory;

// One directory through many attempts.
class Course {
 public:
  Course(int ranks, std::uint64_t seed) : ranks_(ranks), random_(seed), files_(directory_.path(), seed) {}

  // An attempt starts, saves twice and comes to its end somewhere on the way; then the next one looks.
  void attempt() {
    files_.plan({.kind = Fault::Kind::stop, .at = static_cast<std::int64_t>(random_() % calls_)});
    run();
    stops_ += files_.struck();
    calls_ = std::max(calls_, static_cast<std::uint64_t>(files_.counted()) + 2);
    if (random_() % 2)
      files_.lose_power();
    else
      files_.restart();
    look();
    settle();
  }

  int stops() const { return stops_; }
  int interrupted_found() const { return interrupted_found_; }

 private:
  void run() {
    try {
      const Fence fence = Fence::take(directory_.path() / "ckpt", 0, "test");
      fence.enter();
      for (int save = 0; save < 2; ++save) {
        // Now and then a step that is there already.
        if (random_() % 3) ++step_;
        ++number_;
        possible_.insert(number_);
        const auto outcome = save_numbered(directory_.path() / "ckpt", ranks_, step_, number_, fence);
        if (!outcome.saved) {
          EXPECT_EQ(outcome.code, ExitCode::io) << outcome.error;
          return;
        }
        possible_ = {number_};
      }
    } catch (const IoError&) {
      EXPECT_TRUE(files_.struck());
    }
  }

  // Without putting anything in order, as somebody who only reads.
  std::optional<int> look() {
    const auto found = restore_numbered(directory_.path() / "ckpt", 1 + static_cast<int>(random_() % 3));
    if (!found) {
      EXPECT_TRUE(possible_.contains(kNothing)) << "a committed checkpoint is lost; the newest was " << number_;
      return std::nullopt;
    }
    EXPECT_TRUE(possible_.contains(found->number)) << found->number << " was found, the newest is " << number_;
    interrupted_found_ += found->number == number_ && possible_.size() > 1;
    return found->number;
  }

  void settle() {
    Fence::take(directory_.path() / "ckpt", 0, "test").enter();
    testing::expect_settled(directory_.path() / "ckpt");
    const auto found = look();
    possible_ = {found.value_or(kNothing)};  // and it stays, since entering has synced the directory
  }

  static constexpr int kNothing = 0;

  int ranks_;
  std::mt19937_64 random_;
  TemporaryDirectory directory_{testing::memory_folder()};
  FaultyFiles files_;
  std::uint64_t calls_ = 110;         // a little more than an attempt makes
  std::set<int> possible_{kNothing};  // what a restart may find: the number of a save
  int number_ = 0, stops_ = 0, interrupted_found_ = 0;
  std::int64_t step_ = 0;
};

TEST(PowerLoss, CommittedCheckpointsAreFoundAgain) {
  const auto wanted = testing::number_from_environment("SHOAL_FAULT_STOPS", testing::kTrials);
  const auto seed = testing::number_from_environment("SHOAL_FAULT_SEED", 1);
  constexpr int kAttempts = 25;
  const testing::QuietErrors quiet;
  int stops = 0, interrupted = 0;
  for (int number = 0; stops < wanted && !HasFailure(); ++number) {
    SCOPED_TRACE(fmt::format("course {} of seed {}", number, seed));
    // Mostly one rank, whose calls come in the same order each time.
    Course course(number % 4 == 3 ? 3 : 1, static_cast<std::uint64_t>(seed * 1'000'003 + number));
    for (int i = 0; i < kAttempts && !HasFailure(); ++i) {
      SCOPED_TRACE(fmt::format("attempt {}", i));
      course.attempt();
    }
    stops += course.stops();
    interrupted += course.interrupted_found();
  }
  std::printf("%d attempts stopped at a call, %d of them after their commit\n", stops, interrupted);
  EXPECT_GT(interrupted, wanted / 100);
}

}  // namespace
}  // namespace shoal::checkpoint
