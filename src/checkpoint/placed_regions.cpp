#include "checkpoint/placed_regions.h"

#include "checkpoint/shard_reader.h"
#include "core/check.h"

namespace shoal::checkpoint {

std::vector<PlacedRegion> place_regions(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  std::vector<PlacedRegion> placed;
  std::vector<RegionTable> tables;
  for (std::size_t file = 0; file < manifest.files.size(); ++file) {
    const ShardReader reader(checkpoint, manifest, file);
    for (std::size_t region = 0; region < reader.regions().size(); ++region) {
      const RegionRow& row = reader.regions()[region];
      const std::int64_t element = size_of(manifest.tensors[row.tensor].spec.dtype);
      placed.push_back({file, row.tensor, reader.locate(region), static_cast<std::int64_t>(row.begin) * element,
                        static_cast<std::int64_t>(row.count) * element, static_cast<std::uint32_t>(row.crc)});
    }
    tables.push_back(reader.regions());
  }
  check_coverage(tables, manifest, checkpoint.string());
  return placed;
}

void check_crc(const PlacedRegion& region, std::uint32_t crc, const std::filesystem::path& checkpoint,
               const Manifest& manifest) {
  const TensorSpec& spec = manifest.tensors.at(region.tensor).spec;
  const std::int64_t element = size_of(spec.dtype);
  SHOAL_CHECK(crc == region.crc, CheckpointError,
              "{}: tensor '{}', elements {} to {}: the bytes do not match their checksum (CRC-32C {:08x}, {:08x} was "
              "written): it is damaged",
              (checkpoint / manifest.files.at(region.file).name).string(), spec.name, region.begin / element,
              (region.begin + region.bytes) / element - 1, crc, region.crc);
}

}  // namespace shoal::checkpoint
