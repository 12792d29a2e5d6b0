// The files that consolidate() writes: each knows where a tensor's bytes belong before the first one is written.
#pragma once

#include <functional>
#include <vector>

#include "checkpoint/manifest.h"
#include "core/file_io.h"

namespace shoal::checkpoint {

struct ConsolidateTarget {
  OutputFile file;
  std::vector<std::int64_t> offsets;  // in the file, of each tensor of the manifest; kNotWanted: left out
  // Called with each piece after it was written; may be empty.
  std::function<void(std::size_t tensor, std::int64_t offset, const std::byte* data, std::size_t bytes)> note_piece;
  // What else belongs into the file, as (offset, bytes), known after the last piece; may be empty.
  std::function<std::vector<std::pair<std::uint64_t, std::string>>()> records;
};

inline constexpr std::int64_t kNotWanted = -1;

// Both make `path` anew.
ConsolidateTarget make_hdf5_target(const std::filesystem::path& path, const Manifest& manifest, bool with_optimizer);
ConsolidateTarget make_torch_target(const std::filesystem::path& path, const Manifest& manifest);

}  // namespace shoal::checkpoint
