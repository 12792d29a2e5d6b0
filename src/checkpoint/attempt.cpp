#include "checkpoint/attempt.h"

#include <algorithm>
#include <map>
#include <system_error>

#include "checkpoint/catalog.h"
#include "checkpoint/commit_record.h"
#include "checkpoint/file_names.h"
#include "checkpoint/leftovers.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/file_io.h"
#include "core/logging.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

void ask(const Fence* fence) {
  if (fence != nullptr) fence->check();
}

int number_of(const Fence* fence) { return fence == nullptr ? 0 : fence->number(); }

std::int64_t next_sequence(const fs::path& directory) {
  std::int64_t largest = 0;
  for (const CatalogEntry& entry : list_checkpoints(directory)) largest = std::max(largest, entry.sequence);
  return largest + 1;
}

// A rank on another node may have written to a directory of the same name on a disk of its own.
void check_files_arrived(const Attempt& attempt, const Manifest& manifest) {
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank) {
    const ShardFile& file = manifest.files[rank];
    std::error_code error;
    const auto bytes = fs::file_size(attempt.path / file.name, error);
    SHOAL_CHECK(!error && bytes == static_cast<std::uintmax_t>(file.bytes), IoError,
                "rank {} wrote {} bytes to {}, which rank 0 does not see; --checkpoint-dir must lie on a file system "
                "that all nodes share",
                rank, file.bytes, (attempt.path / file.name).string());
  }
}

// Back under its name, unless somebody else has taken it away or has the name now.
void put_back(const fs::path& path, const fs::path& name) noexcept { static_cast<void>(try_rename(path, name)); }

void point_latest_at(const fs::path& checkpoint, const Fence* fence, const SaveObserver& observer) {
  const fs::path directory = checkpoint.parent_path();
  const fs::path staged = directory / (std::string(kLatestName) + ".tmp");
  write_text_file(staged, checkpoint.filename().string() + "\n");
  pass(observer, SavePoint::latest_staged);
  ask(fence);
  rename_path(staged, directory / kLatestName);
  sync_directory(directory);
  pass(observer, SavePoint::latest_replaced);
}

// The sound ones, so far as that decides what goes: a manifest takes milliseconds, and of those that stay for ever
// there are more and more.
std::vector<CatalogEntry> find_sound(const std::vector<CatalogEntry>& newest_first, const Retention& retention) {
  std::map<std::int64_t, int> of_step;
  for (const CatalogEntry& entry : newest_first) ++of_step[entry.step];
  std::vector<CatalogEntry> sound;
  int newest = 0;
  for (const CatalogEntry& entry : newest_first) {
    const bool only_one = of_step[entry.step] == 1;
    const bool stays_anyway = newest >= retention.keep && only_one && is_for_ever(entry.step, retention);
    if (!stays_anyway && !is_sound(entry.path)) continue;
    sound.push_back(entry);
    newest += only_one ? 1 : 0;
  }
  return sound;
}

void prune(const std::vector<CatalogEntry>& newest_first, const Retention& retention, const Fence* fence,
           const SaveObserver& observer, const Remove& remove) {
  for (const CatalogEntry& entry : superfluous(find_sound(newest_first, retention), retention))
    remove_checkpoint(entry.path, fence, observer, 0, remove);
}

// The commit itself. The one that a newer attempt has fenced off fails in its second rename, since its directory is
// gone.
void give_name(const Attempt& attempt, const fs::path& final_path, const SaveObserver& observer) {
  ask(attempt.fence);
  pass(observer, SavePoint::commit_allowed);
  const fs::path displaced = attempt.directory / displaced_directory_name(attempt.step, attempt.id);
  std::error_code ignored;
  if (fs::exists(final_path, ignored)) {
    rename_path(final_path, displaced);
    pass(observer, SavePoint::old_displaced);
  }
  try {
    rename_path(attempt.path, final_path);
  } catch (const IoError&) {
    put_back(displaced, final_path);
    ask(attempt.fence);
    throw;
  }
}

Attempt make_attempt(const fs::path& directory, std::int64_t step, const Fence* fence) {
  sweep_leftovers(directory, number_of(fence));
  restore_displaced(directory);
  Attempt attempt{directory, {}, make_checkpoint_id(), next_sequence(directory), step, fence};
  attempt.path = directory / temporary_directory_name(step, number_of(fence), attempt.id);
  try {
    make_directories(attempt.path / kShardFolder);
  } catch (const IoError&) {
    abandon(attempt);
    throw;
  }
  return attempt;
}

}  // namespace

// The fence is asked once more when the checkpoint has no name any longer: this process may have been stopped since it
// asked, for as long as a newer attempt needs to use that name.
void remove_checkpoint(const fs::path& path, const Fence* fence, const SaveObserver& observer, std::uint64_t number,
                       const Remove& remove) {
  ask(fence);
  pass(observer, SavePoint::removal_allowed);
  const auto name = parse_step_directory_name(path.filename().string());
  const fs::path aside =
      path.parent_path() / temporary_directory_name(name->step, number_of(fence), make_checkpoint_id());
  rename_path(path, aside);
  try {
    pass(observer, SavePoint::old_set_aside);
    SHOAL_CHECK(number == 0 || directory_number(aside) == number, IoError,
                "{} is another checkpoint than a moment ago: a job saves there", path.string());
    ask(fence);
    sync_directory(path.parent_path());  // or a loss of power might leave the name, and take what was in it
  } catch (const Error&) {
    put_back(aside, path);
    throw;
  }
  remove(aside);
}

bool is_sound(const fs::path& path) {
  try {
    open_checkpoint(path);
    return true;
  } catch (const CheckpointError&) {
    return false;  // left alone: whoever restores or verifies is told why
  }
}

Attempt begin_attempt(const fs::path& directory, std::int64_t step, const Fence* fence, const SaveObserver& observer) {
  make_directories(directory);
  ask(fence);
  pass(observer, SavePoint::begin_allowed);
  try {
    return make_attempt(directory, step, fence);
  } catch (const IoError&) {
    ask(fence);  // a newer attempt takes away what this one has just made
    throw;
  }
}

fs::path commit(const Attempt& attempt, const Manifest& manifest, const SaveObserver& observer) {
  check_files_arrived(attempt, manifest);
  const std::string text = format_manifest(manifest);
  write_text_file(attempt.path / kManifestName, text);
  sync_directory(attempt.path / kShardFolder);
  sync_directory(attempt.path);
  pass(observer, SavePoint::manifest_written);
  const CommitRecord record{attempt.id, attempt.sequence, static_cast<std::int64_t>(text.size()),
                            crc32c(text.data(), text.size())};
  write_text_file(attempt.path / kCommitName, format_commit(record));
  sync_directory(attempt.path);
  pass(observer, SavePoint::committed);

  const fs::path final_path = attempt.directory / step_directory_name(attempt.step);
  give_name(attempt, final_path, observer);
  sync_directory(attempt.directory);
  pass(observer, SavePoint::renamed);
  return final_path;
}

void tidy_up(const fs::path& directory, const Retention& retention, const Fence* fence, const SaveObserver& observer,
             const Remove& remove) {
  ask(fence);
  const auto problem_of = [&](const auto& task) -> std::string {
    try {
      task(list_checkpoints(directory));
      return "";
    } catch (const IoError& error) {
      return error.what();
    }
  };
  const auto point_latest = [&](const std::vector<CatalogEntry>& entries) {
    const auto newest = std::find_if(entries.begin(), entries.end(), [](const auto& e) { return e.sequence >= 0; });
    if (newest != entries.end()) point_latest_at(newest->path, fence, observer);
  };
  std::string latest_problem = problem_of(point_latest);
  // Without room for it the old one goes, before what it names does.
  if (!latest_problem.empty()) static_cast<void>(try_remove(directory / kLatestName));
  const std::string prune_problem =
      problem_of([&](const std::vector<CatalogEntry>& entries) { prune(entries, retention, fence, observer, remove); });
  if (!latest_problem.empty()) latest_problem = problem_of(point_latest);  // now there may be room
  for (const std::string& problem : {latest_problem, prune_problem})
    if (!problem.empty())
      log::warning("the new checkpoint in {} is complete, but tidying up failed: {}", directory.string(), problem);
  pass(observer, SavePoint::finished);
}

void abandon(const Attempt& attempt) noexcept {
  try {
    remove_tree(attempt.path);
  } catch (const std::exception& error) {
    log::warning("what there is of an unfinished save stays until the next one: {}", error.what());
  }
}

}  // namespace shoal::checkpoint
