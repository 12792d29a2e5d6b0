// Saves of small states that tell which save they come from, for tests in which some do not come to their end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "core/exit_code.h"

namespace shoal::testing {

struct SaveOutcome {
  bool saved = false;  // on all ranks
  std::string error;   // of all ranks alike; fails the test where they differ
  ExitCode code = ExitCode::ok;
};

// Collectively on `ranks` threads, keeping two.
SaveOutcome save_numbered(const std::filesystem::path& directory, int ranks, std::int64_t step, int number,
                          const std::optional<checkpoint::Fence>& fence = {});

struct Found {
  std::int64_t step;
  int number;
};
// What --resume auto finds on `ranks` threads; fails the test unless every element is that of the save it claims to be.
std::optional<Found> restore_numbered(const std::filesystem::path& directory, int ranks);

// Fails the test where something that has the name of a checkpoint is none, where `latest` names what is not there, or
// where an unfinished save lies about.
void expect_settled(const std::filesystem::path& directory);

// What is told on standard error while it lives is lost: hundreds of warnings that are meant to come.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  int before_;
};

// How often a test with random faults tries: a tenth under sanitizers, which are ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::int64_t kTrials = 100;
#else
inline constexpr std::int64_t kTrials = 1000;
#endif

// The value of an environment variable, for longer runs or another seed.
std::int64_t number_from_environment(const char* name, std::int64_t otherwise);

}  // namespace shoal::testing
