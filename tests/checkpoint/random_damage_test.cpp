// A thousand checkpoints with a bit flipped, a file cut off or one too long, anywhere: the damage is named with its
// file, or means nothing; what a restart loads is right either way. SHOAL_DAMAGE_TRIALS and SHOAL_FAULT_SEED choose
// others.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "checkpoint/numbered_saves.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::restore_numbered;
using testing::save_numbered;
using testing::TemporaryDirectory;

// Everything that is said of it; empty where nothing is found.
std::string problems_of(const fs::path& checkpoint) {
  std::string text;
  try {
    const VerifyReport report = verify(checkpoint);
    for (const std::string& problem : report.problems) text += problem + '\n';
    for (const FileCheck& file : report.files)
      for (const Problem& problem : file.problems) text += problem.text + '\n';
  } catch (const CheckpointError& error) {
    text = error.what();
  }
  return text;
}

class DamagedAnywhere {
 public:
  explicit DamagedAnywhere(std::uint64_t seed) : random_(seed) {
    EXPECT_TRUE(save_numbered(directory_.path(), 3, 1, 1).saved);
    EXPECT_TRUE(save_numbered(directory_.path(), 3, 2, 2).saved);
    for (const auto& entry : fs::recursive_directory_iterator(checkpoint_))
      if (entry.is_regular_file()) files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
  }

  void trial() {
    const fs::path file = files_[random_() % files_.size()];
    const std::string before = read_text_file(file);
    std::string text = before;
    const std::string what = damage(text);
    write_text_file(file, text);
    SCOPED_TRACE(file.filename().string() + ": " + what);
    check(file);
    write_text_file(file, before);
  }

  int named() const { return named_; }
  int went_back() const { return went_back_; }
  int harmless() const { return harmless_; }

 private:
  std::string damage(std::string& text) {
    const auto at = static_cast<std::size_t>(random_() % text.size());
    switch (random_() % 8) {
      case 0: text.resize(at); return fmt::format("cut off at {}", at);
      case 1: text.append(1 + at % 100, '\0'); return "longer";
      case 2: {
        const std::size_t end = std::min(text.size(), at + 1 + random_() % 4096);
        std::fill(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end),
                  '\0');
        return fmt::format("zeros from {} to {}", at, end);
      }
      default:
        text[at] = static_cast<char>(text[at] ^ (1 << random_() % 8));
        return fmt::format("a bit of byte {}", at);
    }
  }

  void check(const fs::path& file) {
    const std::string problems = problems_of(checkpoint_);
    const auto found = restore_numbered(directory_.path(), 1 + static_cast<int>(random_() % 3));
    ASSERT_TRUE(found) << "the older one is sound";  // what is found holds its elements as they were saved
    if (problems.empty()) {
      EXPECT_EQ(found->number, 2);
      ++harmless_;
    } else {
      EXPECT_NE(problems.find(file.filename().string()), std::string::npos) << problems;
      ++named_;
      // A restart does without HDF5's word on where each tensor lies, which verify wants to be right as well.
      EXPECT_TRUE(found->number == 1 || problems.find("dataset") != std::string::npos ||
                  problems.find("H5Dopen") != std::string::npos)
          << problems;
      went_back_ += found->number == 1;
    }
  }

  std::mt19937_64 random_;
  TemporaryDirectory directory_{testing::memory_folder()};
  fs::path checkpoint_ = directory_.path() / "step_00000002";
  std::vector<fs::path> files_;
  int named_ = 0, harmless_ = 0, went_back_ = 0;
};

TEST(RandomDamage, IsNamedOrMeansNothing) {
  const auto trials = testing::number_from_environment("SHOAL_DAMAGE_TRIALS", testing::kTrials);
  const testing::QuietErrors quiet;
  DamagedAnywhere checkpoint(static_cast<std::uint64_t>(testing::number_from_environment("SHOAL_FAULT_SEED", 1)));
  for (std::int64_t i = 0; i < trials && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("trial {}", i));
    checkpoint.trial();
  }
  std::printf("%d damages named, %d mean nothing\n", checkpoint.named(), checkpoint.harmless());
  EXPECT_GT(checkpoint.named(), trials / 3);
  EXPECT_GT(checkpoint.went_back(), checkpoint.named() / 2);
}

}  // namespace
}  // namespace shoal::checkpoint
