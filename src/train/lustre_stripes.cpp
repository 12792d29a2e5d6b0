#include "train/lustre_stripes.h"

#include <fmt/format.h>

namespace shoal::train {

int stripes_of(double file_bytes) {
  constexpr double kLarge = 100e9;
  constexpr int kStripesOfLarge = 4;
  return file_bytes > kLarge ? kStripesOfLarge : 1;
}

std::string set_stripes(const std::filesystem::path& directory, double file_bytes, const launch::CommandRunner& run) {
  constexpr std::chrono::seconds kLimit(10);
  const std::string stripes = std::to_string(stripes_of(file_bytes));
  if (!run({"lfs", "getstripe", "-d", directory.string()}, kLimit).ok()) return "";
  const std::string command = fmt::format("lfs setstripe -c {} {}", stripes, directory.string());
  const launch::CommandResult set = run({"lfs", "setstripe", "-c", stripes, directory.string()}, kLimit);
  if (set.ok()) return fmt::format("Lustre: files of checkpoints get {} stripe(s) each ({})", stripes, command);
  return fmt::format("Lustre: the striping of checkpoints stays as it is: {}: {}", command, set.problem(kLimit));
}

}  // namespace shoal::train
