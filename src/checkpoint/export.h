// From a sharded checkpoint to files with whole tensors, for other programs to read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "checkpoint/export_pieces.h"

namespace shoal::checkpoint {

enum class ExportFormat { hdf5, torch, safetensors, npz };

struct ExportProgress {
  bool checking = false;  // the result is being read back
  std::int64_t bytes = 0, all_bytes = 0;
  std::int64_t bytes_before = 0;  // of `bytes`, those of an export that was killed
};

struct ExportOptions {
  std::filesystem::path checkpoint;  // one checkpoint
  std::filesystem::path output;      // a file; with `shard_bytes` a folder
  ExportFormat format = ExportFormat::hdf5;
  ExportSelection selection;
  bool force = false;            // replace what is there
  std::int64_t shard_bytes = 0;  // safetensors: the most that one of several files has; 0: one file
  int workers = 1;
  bool direct = true;                                   // past the page cache, where the file systems take that
  bool read_back = true;                                // and compare, before the result gets its name
  ExportMember member;                                  // of several processes that do this together
  std::int64_t memory = std::int64_t{1} << 30;          // bytes that workers and tables may take
  std::int64_t piece_bytes = std::int64_t{64} << 20;    // at most; what is done again after a kill is at most
  std::int64_t sync_bytes = std::int64_t{256} << 20;    // these, and a piece of each worker
  std::function<void(const ExportProgress&)> progress;  // several times a second
};

struct ExportReport {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;         // of tensors, in the output
  std::int64_t bytes_before = 0;  // of the checkpoint's tensors, those that an export that was killed had copied
  double seconds = 0;             // in all, of which reading the result back took:
  double check_seconds = 0;
};

// Memory, in bytes, beside the program's own.
struct ExportMemory {
  std::int64_t tables = 0;   // manifest, regions, pieces, and what stands in the output beside tensors
  std::int64_t buffers = 0;  // of all workers
  int workers = 0;           // as many as were wanted, or as `memory` allows
};

class Export {
 public:
  // Reads the checkpoint's tables and decides what goes where; writes nothing. OptionError where the output exists and
  // `force` is not given, where the selection is empty or names collide, or where `memory` is too small;
  // CheckpointError for damage.
  explicit Export(ExportOptions options);

  const ExportSource& source() const { return source_; }
  const ExportMemory& memory() const { return memory_; }

  // Streams file by file: each byte is read once, checked against its checksum, converted and put in its place. Written
  // to `output`.part; what is finished stands in `output`.part.journal, with which the same export goes on after it was
  // killed. The result is synced, read back and compared, then it gets its name; the part is removed after an error.
  // CheckpointError for damage, IoError where the output cannot be written, OptionError where another export is writing
  // it.
  ExportReport run();

 private:
  ExportLayout lay_out() const;
  std::string config() const;
  void check_output() const;
  ExportMemory needed_memory() const;
  std::uint64_t fingerprint() const;
  void copy(class ExportParts& parts, ExportReport& report) const;

  ExportOptions options_;
  ExportSource source_;
  ExportMemory memory_;
};

inline ExportReport export_checkpoint(const ExportOptions& options) { return Export(options).run(); }

}  // namespace shoal::checkpoint
