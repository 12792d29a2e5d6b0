// What a job leaves for people and for its next attempts, beside its checkpoints. Every name in the run directory is
// built here; docs/running.md describes the files.
//   attempts/000001.json                   AttemptRecord (run_records.h): one a start of the job
//   logs/rank-0003.attempt-000001.log      all that the rank logged
//   placement.attempt-000001.json          which rank ran where
//   first_failure.attempt-000001.json      FailureRecord: the first rank that failed
//   status.json                            RunStatus: how far the run is
//   metrics.jsonl                          MetricsLine (metrics.h): how it went, a line every few steps
//   tensorboard/attempt-000001/            the same for TensorBoard, with --tensorboard
//   where/                                 what ranks were doing when the watchdog asked
//   done                                   the run has come to its end
//   STOP, SAVE                             made by the user: stop now; save now
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal::launch {

class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root) : root_(std::move(root)) {}

  // Makes the folders; IoError where that cannot be. Removes texts that were never renamed to their place, since their
  // writer was killed more than an hour ago.
  void make() const;

  const std::filesystem::path& path() const { return root_; }
  // Attempts are numbered from 1, over all jobs that use one checkpoint directory; a directory may have gaps.
  std::filesystem::path attempt(int attempt) const;
  std::filesystem::path log(int attempt, int rank) const;
  std::filesystem::path placement(int attempt) const;
  std::filesystem::path first_failure(int attempt) const;
  std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path tensorboard(int attempt) const;
  std::filesystem::path where() const { return root_ / "where"; }
  std::filesystem::path status() const { return root_ / "status.json"; }
  std::filesystem::path done() const { return root_ / "done"; }
  std::filesystem::path stop_request() const { return root_ / "STOP"; }
  std::filesystem::path save_request() const { return root_ / "SAVE"; }

  // The numbers of which there is a record, ascending. IoError where the folder cannot be read; empty where it is not
  // there.
  std::vector<int> attempts() const;

 private:
  std::filesystem::path root_;
};

// What a rank needs to write its part of an attempt.
struct RunAttempt {
  RunDirectory directory;
  int number = 0;
};

}  // namespace shoal::launch
