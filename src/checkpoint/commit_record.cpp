#include "checkpoint/commit_record.h"

#include <cinttypes>
#include <cstdio>

#include "checkpoint/manifest.h"
#include "core/check.h"

namespace shoal::checkpoint {

std::string format_commit(const CommitRecord& record) {
  return fmt::format("{} {}\ncheckpoint {}\nsequence {}\nmanifest_bytes {}\nmanifest_crc32c {:08x}\n", kFormatName,
                     kFormatVersion, record.id, record.sequence, record.manifest_bytes, record.manifest_crc);
}

CommitRecord parse_commit(const std::string& text, const std::string& where) {
  int version = 0;
  char id[17] = "";
  CommitRecord record;
  const int fields = std::sscanf(text.c_str(),
                                 "shoal-checkpoint %d checkpoint %16s sequence %" SCNd64 " manifest_bytes %" SCNd64
                                 " manifest_crc32c %" SCNx32,
                                 &version, id, &record.sequence, &record.manifest_bytes, &record.manifest_crc);
  SHOAL_CHECK(fields < 1 || version <= kFormatVersion, CheckpointError,
              "{} has format version {}, written by a newer Shoal; this one reads up to version {}: update Shoal",
              where, version, kFormatVersion);
  record.id = id;
  SHOAL_CHECK(fields == 5 && format_commit(record) == text, CheckpointError, "{} is damaged", where);
  return record;
}

}  // namespace shoal::checkpoint
