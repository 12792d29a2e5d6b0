#include "checkpoint/repair.h"

#include "checkpoint/catalog.h"
#include "checkpoint/fence.h"
#include "checkpoint/file_names.h"
#include "checkpoint/verify.h"
#include "core/check.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

struct Suspect {
  SetAside found;
  std::uint64_t number = 0;  // of the directory that was read
};

void set_aside(const Suspect& suspect, const Fence& fence) {
  fence.check();
  rename_path(suspect.found.path, suspect.found.evidence);
  if (directory_number(suspect.found.evidence) == suspect.number) return;
  rename_path(suspect.found.evidence, suspect.found.path);
  throw IoError("{} is another checkpoint than the damaged one that was read: a job saves there; run this again",
                suspect.found.path.string());
}

}  // namespace

RepairReport repair_checkpoints(const fs::path& directory, bool dry_run, int workers) {
  const Fence fence = Fence::watch(directory);
  RepairReport report;
  std::vector<Suspect> suspects;
  const std::vector<CatalogEntry> entries = checkpoints_in(directory);
  std::vector<std::uint64_t> numbers;
  for (const CatalogEntry& entry : entries) numbers.push_back(directory_number(entry.path));
  for (const CatalogEntry& entry : entries) {
    const std::string problem = problem_of(entry.path, workers);
    if (problem.empty()) {
      report.newest_sound = entry.path;
      break;
    }
    const fs::path evidence = directory / evidence_directory_name(entry.step, make_checkpoint_id());
    suspects.push_back({{entry.path, problem, evidence}, numbers[suspects.size()]});
  }
  // What is being deleted looks damaged.
  check_unchanged({entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(suspects.size())}, numbers);
  SHOAL_CHECK(!report.newest_sound.empty(), CheckpointError,
              "none of the {} checkpoints in {} verifies, so all are left as they are; the newest: {}", suspects.size(),
              directory.string(), suspects.front().found.problem);
  for (const Suspect& suspect : suspects) {
    if (!dry_run) set_aside(suspect, fence);
    report.damaged.push_back(suspect.found);
  }
  if (dry_run || suspects.empty()) return report;
  if (list_checkpoints(directory).front().path == report.newest_sound)  // else a job has saved a newer one meanwhile
    replace_text_file(directory / kLatestName, report.newest_sound.filename().string() + "\n");
  return report;
}

}  // namespace shoal::checkpoint
