// The COMMIT file: that it is there and agrees with manifest.json makes a checkpoint complete.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::checkpoint {

struct CommitRecord {
  std::string id;
  std::int64_t sequence = 0;
  std::int64_t manifest_bytes = 0;
  std::uint32_t manifest_crc = 0;  // CRC-32C
};

std::string format_commit(const CommitRecord& record);
// CheckpointError that starts with `where`, for text that format_commit does not give back byte by byte.
CommitRecord parse_commit(const std::string& text, const std::string& where);

}  // namespace shoal::checkpoint
