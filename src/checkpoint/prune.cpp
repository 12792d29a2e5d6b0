#include "checkpoint/prune.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "checkpoint/attempt.h"
#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
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

std::int64_t bytes_of(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const ShardFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

// Decides newest first; `kept`: the steps that are kept so far.
PrunedCheckpoint judge(const CatalogEntry& entry, const PruneOptions& options, std::set<std::int64_t>& kept) {
  PrunedCheckpoint judged{entry.path, entry.step, Fate::left, "a save has displaced it", 0};
  if (is_displaced_for_now(entry.path, entry.step)) return judged;
  try {
    judged.bytes = bytes_of(open_checkpoint(entry.path));
  } catch (const CheckpointError& error) {
    judged.reason = fmt::format("damaged: {}", error.what());
    return judged;
  }
  judged.fate = Fate::kept;
  if (kept.contains(entry.step)) {
    judged.fate = Fate::removed;
    judged.reason = "there is a newer one of this step";
  } else if (static_cast<int>(kept.size()) < options.keep) {
    judged.reason = fmt::format("one of the newest {}", options.keep);
  } else if (options.keep_every > 0 && entry.step % options.keep_every == 0) {
    judged.reason = fmt::format("its step is a multiple of {}", options.keep_every);
    return judged;  // does not count for the newest
  } else {
    judged.fate = Fate::removed;
    judged.reason = "older";
  }
  if (judged.fate == Fate::kept) kept.insert(entry.step);
  return judged;
}

bool verifies(const fs::path& checkpoint, int workers) {
  try {
    return verify(checkpoint, workers).problem_count() == 0;
  } catch (const CheckpointError&) {
    return false;
  }
}

// Makes sure that what stays has one that verifies.
void keep_one_that_verifies(PruneReport& report, const PruneOptions& options) {
  for (const Fate fate : {Fate::kept, Fate::removed})
    for (PrunedCheckpoint& checkpoint : report.checkpoints) {
      if (checkpoint.fate != fate || !verifies(checkpoint.path, options.workers)) continue;
      if (fate == Fate::removed) checkpoint.reason = "no newer one verifies";
      checkpoint.fate = Fate::kept;
      report.verified = checkpoint.path;
      return;
    }
  throw CheckpointError("no checkpoint in {} verifies, so none is deleted; shoal ckpt verify tells what is wrong",
                        options.directory.string());
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
  std::vector<std::uint64_t> numbers;
  std::set<std::int64_t> kept;
  for (const CatalogEntry& entry : checkpoints_in(options.directory)) {
    numbers.push_back(directory_number(entry.path));
    report.checkpoints.push_back(judge(entry, options, kept));
  }
  const auto is_removed = [](const PrunedCheckpoint& checkpoint) { return checkpoint.fate == Fate::removed; };
  if (std::none_of(report.checkpoints.begin(), report.checkpoints.end(), is_removed)) return report;
  keep_one_that_verifies(report, options);
  for (std::size_t i = 0; i < numbers.size() && !options.dry_run; ++i)
    if (is_removed(report.checkpoints[i])) remove(report.checkpoints[i], numbers[i], fence, options.observer);
  return report;
}

}  // namespace shoal::checkpoint
