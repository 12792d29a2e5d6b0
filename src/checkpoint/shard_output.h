// A shard file on its way: HDF5 has laid it out, the elements and the table of regions follow past it.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/region_table.h"
#include "core/file_io.h"

namespace shoal::checkpoint {

struct ShardHeader {
  std::string id;
  std::int64_t step = 0;
  int rank = 0, ranks = 0;
};

class ShardOutput {
 public:
  // Makes the file in `directory`, under the name that header and rank give, with room for the regions of `table`,
  // whose checksums are not known yet. Rows are in the order of the tensors; those of one tensor share a dataset.
  // `specs`: all tensors of the checkpoint. IoError where it cannot be written; the file then stays.
  ShardOutput(const std::filesystem::path& directory, const ShardHeader& header,
              std::span<const TensorSpec* const> specs, RegionTable table);

  const RegionTable& regions() const { return table_; }
  // Bytes of a region, from byte `offset` of it on.
  void write(std::size_t region, std::int64_t offset, const std::byte* data, std::size_t bytes);
  void set_crc(std::size_t region, std::uint32_t crc) { table_.at(region).crc = crc; }
  // The table, once every region has its bytes and its checksum.
  void write_table();
  // The file is on the disk when this returns.
  ShardFile finish();

 private:
  std::string name_;
  RegionTable table_;
  std::vector<std::int64_t> offsets_;  // of each region's bytes in the file
  std::int64_t table_offset_ = -1;
  OutputFile file_;
};

}  // namespace shoal::checkpoint
