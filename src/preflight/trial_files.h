// The single trials of a directory. Each is one rank's part and does not communicate; IoError where the system refuses.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/file_io.h"
#include "preflight/filesystem.h"
#include "preflight/record.h"

namespace shoal::preflight {

// Waits until `path` holds `text`; the seconds that took, or a negative number where it did not come within the limit.
double wait_for_text(const std::filesystem::path& path, const std::string& text, std::chrono::milliseconds limit);

// Writes and syncs `bytes` of a pattern that `seed` gives, fewer where the time is up before.
FileSpeed write_pattern(const std::filesystem::path& path, std::int64_t bytes, std::uint64_t seed,
                        std::chrono::milliseconds limit);
// Reads them, past this machine's cache where the file system lets us; IoError for a byte that was not written.
FileSpeed read_pattern(const std::filesystem::path& path, std::int64_t bytes, std::uint64_t seed);

// Holds flock()'s exclusive lock as long as the descriptor lives. `busy`: another holds it.
struct LockAttempt {
  Descriptor descriptor;
  bool busy = false;
  int error = 0;  // the system's number, where there are no locks
};
LockAttempt try_lock(const std::filesystem::path& path);

// Replaces a file by another, as the commit of a checkpoint does, with all that must be synced; its milliseconds.
double time_commit(const std::filesystem::path& folder, const std::string& name);

}  // namespace shoal::preflight
