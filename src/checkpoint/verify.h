// Reads every byte of a checkpoint and checks it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

// Elements of a tensor that are not as they were written.
struct DamagedRegion {
  std::string tensor;
  std::int64_t begin = 0, count = 0;
  std::int64_t shard = 0;  // the member of the tensor's shard group that held them; 0 of a tensor that is not cut
};

struct Problem {
  std::string text;                     // one line; names the file, and the tensor and elements where they are known
  std::optional<DamagedRegion> region;  // nothing: the file as a whole
};

struct FileCheck {
  std::string name;
  int index = 0;
  bool one_a_rank = true;  // written by rank `index` alone; else by several
  std::int64_t bytes = 0, regions = 0;
  std::vector<Problem> problems;
};

struct VerifyReport {
  std::filesystem::path path;
  std::int64_t bytes = 0;  // of tensors, read and compared
  double seconds = 0;
  std::vector<FileCheck> files;
  std::vector<std::string> problems;  // of the checkpoint as a whole
  std::int64_t problem_count() const;
  std::string first_problem() const;  // empty: sound
};

// Goes on after a problem, so that the report is whole. `workers` threads (>= 1) read and compare; a region is one
// thread's, so that a checkpoint of one large tensor keeps one of them busy. Throws CheckpointError only where COMMIT
// or the manifest is so wrong that the files are not known.
VerifyReport verify(const std::filesystem::path& checkpoint, int workers = 1);

// The first problem that it finds; empty: the checkpoint verifies.
std::string problem_of(const std::filesystem::path& checkpoint, int workers);

// As verify(), of files that are not committed yet. `progress`: on the calling thread, now and then, with the bytes so
// far.
VerifyReport verify_files(const std::filesystem::path& directory, const Manifest& manifest, int workers = 1,
                          const std::function<void(std::int64_t bytes)>& progress = {});

// Cores, at most four: what a login node bears and a disk can feed.
int default_workers();

}  // namespace shoal::checkpoint
