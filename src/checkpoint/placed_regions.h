// Where every element of a checkpoint lies: the tables of all its files as one list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

struct PlacedRegion {
  std::size_t file = 0, tensor = 0;   // indices into the manifest
  std::int64_t file_offset = 0;       // of the first byte in the file
  std::int64_t begin = 0, bytes = 0;  // in the flattened tensor
  std::uint32_t crc = 0;              // CRC-32C of the bytes
};

// Looks once into each file: headers and tables, no elements. The regions of file 0 come first, each file's in the
// order of its table. CheckpointError where something is wrong, or where the files leave a hole in a tensor or overlap.
std::vector<PlacedRegion> place_regions(const std::filesystem::path& checkpoint, const Manifest& manifest);

// CheckpointError that names file, tensor and elements where `crc`, that of the bytes read, is another than the
// region's.
void check_crc(const PlacedRegion& region, std::uint32_t crc, const std::filesystem::path& checkpoint,
               const Manifest& manifest);

}  // namespace shoal::checkpoint
