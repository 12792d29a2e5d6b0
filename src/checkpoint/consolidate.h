// From a sharded checkpoint to one file with whole tensors, for other programs to read.
#pragma once

#include <cstdint>
#include <filesystem>

namespace shoal::checkpoint {

enum class ConsolidatedFormat {
  hdf5,   // plain N-D datasets under the parameters' names; tied names are hard links
  torch,  // a state dict for torch.load(weights_only=True)
};

struct ConsolidateOptions {
  std::filesystem::path checkpoint;  // one checkpoint
  std::filesystem::path output;
  ConsolidatedFormat format = ConsolidatedFormat::hdf5;
  bool with_optimizer = false;  // HDF5 only: optimizer state under /optimizer/<state>/
  bool force = false;           // replace `output` where it exists
};

struct ConsolidateReport {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  // of tensors
  double seconds = 0;
};

// Streams file by file: each byte is read once, checked against its checksum and put in its place; memory is bounded
// by the manifest, the tables of regions and one piece of kChunkBytes. Written to `output`.part, synced, renamed; the
// part is removed after an error. OptionError where `output` exists and `force` is not given, CheckpointError for
// damage, IoError where the output cannot be written.
ConsolidateReport consolidate(const ConsolidateOptions& options);

}  // namespace shoal::checkpoint
