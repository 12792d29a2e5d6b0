// model.h5 in a checkpoint: the tensors as whole datasets whose elements stay in the shard files, for HDF5 tools to
// look at. Shoal itself never reads it: a reader of a virtual dataset is not told when a source is missing.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

// A reader holds all sources of a tensor open at a time, and silently sees the fill value of those that are beyond its
// limit on open files, of which 1024 are usual.
inline constexpr std::int64_t kMostViewFiles = 512;

struct ViewReport {
  std::filesystem::path path;
  std::int64_t tensors = 0, files = 0, boxes = 0;  // `files`: that hold some of the elements
  std::int64_t bytes = 0;                          // of the view
  double seconds = 0;
};

// Makes or replaces the view of the checkpoint at `directory`, which need not be committed yet. Parameters and buffers;
// the optimizer's state on request. Reads the tables of regions of all shard files. The view replaces an old one as a
// whole; nothing is synced, since it can be made anew at any time. OptionError where it would need more than
// kMostViewFiles files, CheckpointError for damage, IoError where it cannot be written.
ViewReport write_view(const std::filesystem::path& directory, const Manifest& manifest, bool with_optimizer);

}  // namespace shoal::checkpoint
