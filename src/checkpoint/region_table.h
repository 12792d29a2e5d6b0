// The /regions table of a shard file: which elements of which tensors the file holds, and their checksums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

// One row, as it stands in the file: four little-endian unsigned 64-bit numbers.
struct RegionRow {
  std::uint64_t tensor = 0;  // index into the manifest's tensors
  std::uint64_t begin = 0;   // first element, of the flattened tensor
  std::uint64_t count = 0;   // elements; > 0
  std::uint64_t crc = 0;     // CRC-32C of the elements' bytes
  bool operator==(const RegionRow&) const = default;
};
static_assert(sizeof(RegionRow) == 32);

using RegionTable = std::vector<RegionRow>;

std::uint32_t table_crc(const RegionTable& table);
std::string table_bytes(const RegionTable& table);
RegionTable table_from_bytes(const std::string& bytes);

// CheckpointError that starts with `where`: a row names no tensor, or elements that the tensor does not have, or the
// rows are not in the order of the tensors.
void check_rows(const RegionTable& table, const Manifest& manifest, const std::string& where);

// `tables[i]` of file i. CheckpointError that names the tensor, the elements and the files, where the regions of all
// files leave a hole in a tensor or overlap.
void check_coverage(const std::vector<RegionTable>& tables, const Manifest& manifest, const std::string& where);

// "tensor 'model/fc1.weight', elements 100 to 199"
std::string describe(const RegionRow& row, const Manifest& manifest);

}  // namespace shoal::checkpoint
