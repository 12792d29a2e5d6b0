#include "checkpoint/leftovers.h"

#include <system_error>
#include <vector>

#include "checkpoint/file_names.h"
#include "core/file_io.h"
#include "core/logging.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

struct Found {
  fs::path path;
  StepDirectory name;
};

std::vector<Found> directories_of_kind(const fs::path& directory, DirectoryKind kind) {
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator files(directory, error); !error && files != fs::directory_iterator();
       files.increment(error)) {
    const auto name = parse_step_directory_name(files->path().filename().string());
    if (name && name->kind == kind) found.push_back({files->path(), *name});
  }
  if (error) throw_io_error("read the directory", directory, error.value());
  return found;
}

// Whoever wrote it may have files open in it, or have taken it away itself.
void remove_or_warn(const fs::path& path) {
  try {
    remove_tree(path);
  } catch (const IoError& error) {
    log::warning("{}; the next save tries again", error.what());
  }
}

}  // namespace

void sweep_leftovers(const fs::path& directory, int attempt, const std::function<void()>& set_aside) {
  for (const Found& leftover : directories_of_kind(directory, DirectoryKind::temporary)) {
    if (leftover.name.attempt > attempt) continue;
    const fs::path aside = directory / temporary_directory_name(leftover.name.step, attempt, make_checkpoint_id());
    log::warning("{} was left by a save that did not finish; it is removed", leftover.path.string());
    const std::error_code error = try_rename(leftover.path, aside);
    if (error == std::errc::no_such_file_or_directory) continue;  // its owner was faster
    if (error) throw_io_error(("rename " + leftover.path.string() + " to").c_str(), aside, error.value());
    if (set_aside) set_aside();
    remove_or_warn(aside);
  }
}

void restore_displaced(const fs::path& directory) {
  for (const Found& displaced : directories_of_kind(directory, DirectoryKind::displaced)) {
    const fs::path name = directory / step_directory_name(displaced.name.step);
    std::error_code ignored;
    if (!fs::exists(name, ignored)) rename_path(displaced.path, name);
  }
}

}  // namespace shoal::checkpoint
