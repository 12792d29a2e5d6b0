// Clears the way from the next start to the newest checkpoint that verifies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal::checkpoint {

struct SetAside {
  std::filesystem::path path;
  std::string problem;             // the first
  std::filesystem::path evidence;  // its name from now on
};

struct RepairReport {
  std::vector<SetAside> damaged;  // newer than the newest that verifies; newest first
  std::filesystem::path newest_sound;
};

// Reads the checkpoints of `directory`, newest first, until one verifies. Those before it get an evidence name
// (file_names.h), which Shoal neither reads nor deletes, and `latest` names the sound one. CheckpointError, and nothing
// is changed, where none verifies. SupersededError where an attempt enters the directory meanwhile, IoError where a
// save gives a name to another checkpoint meanwhile: what is left then is as it was. With `dry_run` nothing is changed.
RepairReport repair_checkpoints(const std::filesystem::path& directory, bool dry_run, int workers = 1);

}  // namespace shoal::checkpoint
