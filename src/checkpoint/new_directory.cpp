#include "checkpoint/new_directory.h"

#include <system_error>

#include "checkpoint/attempt.h"
#include "checkpoint/output_lock.h"
#include "checkpoint/verify.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;

void check_new_directory(const fs::path& output) {
  std::error_code error;
  const bool usable = !fs::exists(output, error) || (fs::is_directory(output, error) && fs::is_empty(output, error));
  SHOAL_CHECK(!error, IoError, "cannot examine {}: {}", output.string(), error.message());
  SHOAL_CHECK(usable, OptionError, "--output {} is there and not empty; give a new directory of checkpoints",
              output.string());
}

NewCheckpoint write_new_checkpoint(const fs::path& output, Manifest manifest, int workers,
                                   const std::function<void(ReshardTargets&)>& fill,
                                   const std::function<void(std::int64_t bytes)>& reading_back) {
  make_directories(directory_of(output));
  const OutputLock lock(output);
  check_new_directory(output);  // whoever had the lock may have filled it
  NewCheckpoint made;
  const Attempt attempt = begin_attempt(output, manifest.step);
  try {
    ReshardTargets targets(attempt.path, attempt.id, attempt.step, manifest.tensors, manifest.ranks);
    fill(targets);
    manifest.id = attempt.id;
    manifest.sequence = attempt.sequence;
    manifest.files = targets.finish();
    const VerifyReport result = verify_files(attempt.path, manifest, workers, reading_back);
    SHOAL_CHECK(result.problem_count() == 0, IoError, "the new checkpoint does not read back as it was written: {}",
                result.first_problem());
    made = {commit(attempt, manifest), result.bytes, result.seconds};
  } catch (...) {
    abandon(attempt);
    throw;
  }
  tidy_up(output, 1);
  return made;
}

}  // namespace shoal::checkpoint
