// A directory that all ranks will write to: is it one directory, does it keep what it is told, and how fast.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

struct FilesystemPlan {
  std::filesystem::path directory;
  std::string prefix;           // of the checks' names: "fs"
  std::int64_t bytes = 0;       // that each rank writes and reads; 0: no speeds
  double checkpoint_bytes = 0;  // of all ranks; 0: not known
  int checkpoints = 3;          // that must fit: those kept, and the one being written
  // Longer than file systems let a machine believe in what it remembers of a directory without asking.
  std::chrono::milliseconds seen_within{10000};
};

// Collective over the job. Checks PREFIX.make, .shared, .exclusive, .lock, .hdf5-lock, .write, .read, .rename, .space
// and .quota, as far as they make sense after what failed. All files are in one new folder, which is gone afterwards.
std::vector<CheckResult> check_filesystem(Context& context, const FilesystemPlan& plan);

// What each rank won of the names that all ranks tried to make; each must have one winner.
std::vector<Record> judge_exclusive(const std::vector<std::vector<int>>& won, int names);

struct FileSpeed {
  std::int64_t bytes = 0;
  double seconds = 0;
};
// "3.1 GB/s in all, 0.7 … 0.9 GB/s, median 0.8 a rank, 64 MiB each"
std::string summary_of(const std::vector<FileSpeed>& speeds);
// A warning for the ranks of hosts whose ranks have, in the mean, less than half of what those of hosts in the median
// have.
void warn_of_slow(std::vector<Record>& records);

}  // namespace shoal::preflight
