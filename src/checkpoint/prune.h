// Deletes checkpoints that are no longer wanted, beside a job that may be running.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/save_point.h"

namespace shoal::checkpoint {

struct PruneOptions {
  std::filesystem::path directory;  // of checkpoints
  int keep = 1;                     // the newest sound ones; >= 1
  std::int64_t keep_every = 0;      // and those whose step is a multiple of it; 0: none
  bool dry_run = false;
  int workers = 1;        // threads that verify
  SaveObserver observer;  // for tests
};

enum class Fate { kept, removed, left };

struct PrunedCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  Fate fate = Fate::kept;
  std::string reason;      // "newest", "step divides by 1000", "damaged: …"
  std::int64_t bytes = 0;  // of its files
};

struct PruneReport {
  std::vector<PrunedCheckpoint> checkpoints;  // newest first
  std::filesystem::path verified;             // the kept one that was read as a whole; empty: nothing was to be deleted
};

// Reads kept checkpoints, newest first, until one verifies; where none does, the newest of the others that does is kept
// as well. So the last checkpoint that verifies is never deleted; CheckpointError, and nothing is deleted, where none
// does. Damaged ones and those that a save has displaced for a moment are left. What a save is writing has another kind
// of name and is not looked at. SupersededError where an attempt enters the directory meanwhile: from then on nothing
// more is deleted. With `dry_run` all of it but the deleting.
PruneReport prune_checkpoints(const PruneOptions& options);

}  // namespace shoal::checkpoint
