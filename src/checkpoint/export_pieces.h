// The work of an export, cut into pieces: each is a part of a region that is read once, checked, converted, written to
// its place and, at the end, read back.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <vector>

#include "checkpoint/export_journal.h"
#include "checkpoint/export_parts.h"
#include "checkpoint/placed_regions.h"

namespace shoal::checkpoint {

struct ExportPiece {
  std::size_t region = 0;                            // of the checkpoint's
  std::size_t tensor = 0;                            // of the plan
  std::int64_t begin = 0, bytes = 0;                 // of the region, in its file's element type
  ExportPlace place;                                 // in the output
  std::int64_t output_offset = 0, output_bytes = 0;  // of the exported tensor
};

// In the order of the regions, at most `most_bytes` each. A tensor that the plan has twice is read twice: its regions
// are added to `regions` once more.
std::vector<ExportPiece> cut_pieces(const Manifest& manifest, std::vector<PlacedRegion>& regions,
                                    const ExportPlan& plan, const ExportLayout& layout, std::int64_t most_bytes);

struct ExportSource {
  std::filesystem::path checkpoint;
  Manifest manifest;
  std::vector<PlacedRegion> regions;
  ExportPlan plan;
  ExportLayout layout;
  std::vector<ExportPiece> pieces;
};

// Copies pieces in any number of threads. Nothing here outlives `source` and `parts`.
class ExportCopy {
 public:
  // What `parts` calls finished is not copied again; of what is left, this is to copy the share of its member of the
  // team. `sync_bytes`: so many bytes at most are not in the journal yet. `direct`: reads past the page cache.
  ExportCopy(const ExportSource& source, ExportParts& parts, std::int64_t sync_bytes, bool direct);

  // Copies what is left; `tick` as in_workers() has it. CheckpointError for damage, IoError where the output cannot be
  // written.
  void run(int workers, const std::function<void()>& tick);
  // What others have copied.
  void add(const std::vector<FinishedPiece>& finished);
  // When no piece is missing: reads every one back. IoError where one is not what was written.
  void read_back(int workers, const std::function<void()>& tick) const;

  std::int64_t copied_bytes() const { return copied_; }    // of the source, since the beginning
  std::int64_t checked_bytes() const { return checked_; }  // of the output
  std::vector<WrittenPart> parts() const;

 private:
  struct Buffers;
  struct Types {
    DType from, to;
  };
  static std::int64_t next_chunk(std::int64_t place, std::int64_t left, DType from, DType to);
  const std::byte* prepare(const std::byte* read, std::int64_t bytes, const Types& types, std::int64_t place,
                           Buffers& buffers, FinishedPiece& finished) const;
  FinishedPiece copy(std::size_t piece, Buffers& buffers);
  void check(std::size_t piece, Buffers& buffers) const;
  void note(const FinishedPiece& finished);
  void commit();

  const ExportSource* source_;
  std::vector<DirectOutput>* outputs_;
  ExportJournal* journal_;
  std::int64_t sync_bytes_;
  bool direct_;
  std::vector<std::size_t> left_;
  std::atomic<std::int64_t> copied_{0};
  mutable std::atomic<std::int64_t> checked_{0};
  std::mutex mutex_;                        // of those below
  std::vector<bool> is_done_;               // by piece
  std::vector<FinishedPiece> done_;         // by piece
  std::vector<std::uint32_t> region_crcs_;  // of what was read so far
  std::vector<std::int64_t> region_left_;   // bytes
  std::vector<FinishedPiece> uncommitted_;
  std::int64_t uncommitted_bytes_ = 0;
  std::mutex journal_mutex_;
};

}  // namespace shoal::checkpoint
