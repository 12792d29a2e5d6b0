// manifest.json: what a checkpoint holds, but for the tensors' bytes and the regions that the shard files cut them in.
// It grows with tensors plus files, not with tensors times ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shard/state_dict.h"

namespace shoal::checkpoint {

inline constexpr const char* kFormatName = "shoal-checkpoint";
inline constexpr int kFormatVersion = 1;  // raised by every change that an older reader would get wrong

struct SavedTensor {
  TensorSpec spec;
  ShardRule rule;
};

struct ShardFile {
  std::string name;  // relative to the checkpoint; see shard_file_name()
  std::int64_t bytes = 0;
  std::int64_t regions = 0;     // rows of its table of regions
  std::uint32_t table_crc = 0;  // CRC-32C of the table's bytes
};

struct Manifest {
  std::string id;
  std::int64_t sequence = 0;  // one more than that of every checkpoint in the directory before: the largest is newest
  std::int64_t step = 0;
  int ranks = 0;
  std::string created;  // UTC, ISO 8601
  std::map<std::string, std::string> libraries;
  std::vector<SavedTensor> tensors;
  std::vector<std::pair<std::string, std::string>> aliases;
  std::vector<ShardFile> files;  // as many as ranks: of rank 0, 1, …; fewer: ranks shared them
  std::string training_state;    // a JSON object

  std::int64_t tensor_bytes() const;
  std::int64_t file_bytes() const;
};

// InternalError where training_state is no JSON object.
std::string format_manifest(const Manifest& manifest);
// CheckpointError that starts with `where`, for text that is no manifest or one of a newer format version.
Manifest parse_manifest(const std::string& text, const std::string& where);

}  // namespace shoal::checkpoint
