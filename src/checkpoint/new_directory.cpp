#include "checkpoint/new_directory.h"

#include <system_error>

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

void check_read_back(const VerifyReport& result) {
  SHOAL_CHECK(result.problem_count() == 0, IoError, "the new checkpoint does not read back as it was written: {}",
              result.first_problem());
}

}  // namespace shoal::checkpoint
