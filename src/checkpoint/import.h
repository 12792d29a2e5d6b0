// A checkpoint out of what another framework has saved, without a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/rename_rules.h"
#include "shard/dtype.h"

namespace shoal::checkpoint {

struct ImportOptions {
  std::filesystem::path source;
  std::filesystem::path output;  // the directory of checkpoints to make; missing or empty
  int ranks = 1;
  std::string key;                              // the dictionary in the source that holds the model; "": the usual ones
  bool weights_only = false;                    // leave the optimizer out
  std::vector<std::string> select;              // globs on the source's names, before they are renamed; empty: all
  RenameRules rename;                           // of the source's names
  std::optional<DType> dtype;                   // of all floating tensors of the result; nothing: as they are
  std::optional<std::int64_t> step;             // that the result has; nothing: the source's, or 0
  int workers = 1;                              // threads that read the result back
  std::int64_t memory = std::int64_t{1} << 30;  // bytes that tables and buffers may take
  bool dry_run = false;                         // read headers alone and write nothing
  // Often: `checking`: what was written is read back.
  std::function<void(bool checking, std::int64_t bytes, std::int64_t all_bytes)> progress;
};

// In bytes, beside the program's own and what the source's headers take.
struct ImportMemory {
  std::int64_t tables = 0, buffers = 0;
  int workers = 0;  // as many as were wanted, or as `memory` allows
};

struct ImportReport {
  std::filesystem::path path;  // of the new checkpoint; empty after a dry run
  std::string format;          // of the source
  std::int64_t step = 0;
  std::int64_t model_tensors = 0, optimizer_tensors = 0;
  std::int64_t bytes = 0;            // of tensors
  std::vector<SavedTensor> tensors;  // of the checkpoint
  std::vector<std::pair<std::string, std::string>> aliases;
  ImportMemory memory;
  std::vector<std::string> notes;
  double seconds = 0, verify_seconds = 0;  // in all, of which reading the result back took
};

// Writes a checkpoint by the protocol of a save (attempt.h): foreign_state.h says what may be read and how it is named.
// Each byte is read once, but for tied tensors, which are compared; memory is bounded by what the source's headers take
// and a piece of kChunkBytes. The result is read back and compared before it is committed; after an error nothing of it
// is left. OptionError where `output` is not empty, CheckpointError where the source is damaged or has parts that Shoal
// cannot hold, IoError where the output cannot be written.
ImportReport import_checkpoint(const ImportOptions& options);

}  // namespace shoal::checkpoint
