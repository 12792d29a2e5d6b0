// From a checkpoint of N ranks to one of M, without a job.
#pragma once

#include <cstdint>
#include <filesystem>

namespace shoal::checkpoint {

struct ReshardOptions {
  std::filesystem::path checkpoint;  // one checkpoint
  std::filesystem::path output;      // the directory of checkpoints to make; missing or empty
  int ranks = 0;
  int workers = 1;  // threads that read the result back
};

struct ReshardReport {
  std::filesystem::path path;  // of the new checkpoint
  std::int64_t bytes = 0;      // of tensors
  int ranks_before = 0;
  double seconds = 0;  // in all, of which reading the result back took:
  double verify_seconds = 0;
};

// Writes a checkpoint of the same step and training state whose shards are those of `ranks` ranks, by the protocol of
// a save (attempt.h). Each byte is read once, compared with its checksum and written once; memory is bounded by the
// manifest, the tables of regions and one piece of kChunkBytes. The result is read back and compared before it is
// committed; after an error nothing of it is left. OptionError where `output` is not empty, CheckpointError for damage,
// IoError where the output cannot be written.
ReshardReport reshard(const ReshardOptions& options);

}  // namespace shoal::checkpoint
