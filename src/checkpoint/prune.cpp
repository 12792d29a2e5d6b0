#include "checkpoint/prune.h"

#include <algorithm>
#include <system_error>

#include "checkpoint/attempt.h"
#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// Between the two renames of a save the checkpoint that had the step's name before has no other.
bool is_displaced_for_now(const fs::path& path, std::int64_t step) {
  const auto name = parse_step_directory_name(path.filename().string());
  std::error_code error;
  return name && name->kind == DirectoryKind::displaced &&
         !fs::exists(path.parent_path() / step_directory_name(step), error);
}

std::string reason_for(Standing standing, const PruneOptions& options) {
  switch (standing) {
    case Standing::newest: return fmt::format("one of the newest {}", options.keep);
    case Standing::multiple: return fmt::format("its step is a multiple of {}", options.keep_every);
    case Standing::displaced: return "there is a newer one of this step";
    case Standing::older: break;
  }
  return "older";
}

// Newest first; what is not sound is left.
std::vector<PrunedCheckpoint> judge(const std::vector<CatalogEntry>& entries, const PruneOptions& options) {
  std::vector<PrunedCheckpoint> judged;
  std::vector<CatalogEntry> sound;
  std::vector<std::size_t> places;  // of those in `judged`
  for (const CatalogEntry& entry : entries) {
    judged.push_back({entry.path, entry.step, Fate::left, "a save has displaced it", 0});
    if (is_displaced_for_now(entry.path, entry.step)) continue;
    try {
      const Manifest manifest = open_checkpoint(entry.path);
      judged.back().reason = "a job has just saved it anew";
      if (manifest.sequence != entry.sequence) continue;
      judged.back().bytes = manifest.file_bytes();
      places.push_back(judged.size() - 1);
      sound.push_back(entry);
    } catch (const CheckpointError& error) {
      judged.back().reason = fmt::format("damaged: {}", error.what());
    }
  }
  const std::vector<Standing> standing = standings(sound, {options.keep, options.keep_every});
  for (std::size_t i = 0; i < sound.size(); ++i) {
    const bool stays = standing[i] == Standing::newest || standing[i] == Standing::multiple;
    judged[places[i]].fate = stays ? Fate::kept : Fate::removed;
    judged[places[i]].reason = reason_for(standing[i], options);
  }
  return judged;
}

// Makes sure that what stays has one that verifies; false where there is none.
bool keep_one_that_verifies(PruneReport& report, const PruneOptions& options) {
  for (const Fate fate : {Fate::kept, Fate::removed})
    for (PrunedCheckpoint& checkpoint : report.checkpoints) {
      if (checkpoint.fate != fate || !problem_of(checkpoint.path, options.workers).empty()) continue;
      if (fate == Fate::removed) checkpoint.reason = "no newer one verifies";
      checkpoint.fate = Fate::kept;
      report.verified = checkpoint.path;
      return true;
    }
  return false;
}

void remove(PrunedCheckpoint& checkpoint, std::uint64_t number, const Fence& fence, const SaveObserver& observer) {
  try {
    remove_checkpoint(checkpoint.path, &fence, observer, number);
  } catch (const IoError&) {
    std::error_code error;
    if (fs::exists(checkpoint.path, error) || error) throw;
    checkpoint.reason += "; a job was faster";
  }
}

}  // namespace

PruneReport prune_checkpoints(const PruneOptions& options) {
  SHOAL_CHECK(options.keep >= 1, OptionError, "--keep {} would keep no checkpoint; it is 1 or more", options.keep);
  SHOAL_CHECK(options.keep_every >= 0, OptionError, "--keep-every {} is no number of steps", options.keep_every);
  // Before the list: who enters later finds all that is in it.
  const Fence fence = Fence::watch(options.directory);
  PruneReport report;
  const std::vector<CatalogEntry> entries = checkpoints_in(options.directory);
  std::vector<std::uint64_t> numbers;
  for (const CatalogEntry& entry : entries) numbers.push_back(directory_number(entry.path));
  report.checkpoints = judge(entries, options);
  const auto is_removed = [](const PrunedCheckpoint& checkpoint) { return checkpoint.fate == Fate::removed; };
  if (std::none_of(report.checkpoints.begin(), report.checkpoints.end(), is_removed)) return report;
  if (!keep_one_that_verifies(report, options)) {
    check_unchanged(entries, numbers);
    throw CheckpointError("no checkpoint in {} verifies, so none is deleted; shoal ckpt verify tells what is wrong",
                          options.directory.string());
  }
  for (std::size_t i = 0; i < numbers.size() && !options.dry_run; ++i)
    if (is_removed(report.checkpoints[i])) remove(report.checkpoints[i], numbers[i], fence, options.observer);
  return report;
}

}  // namespace shoal::checkpoint
