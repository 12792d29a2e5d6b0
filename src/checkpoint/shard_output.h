// What one rank writes of a shard file, which is its own or shared with others. HDF5 has laid it out before and takes
// no part, so that the data may come from another thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/save_point.h"
#include "checkpoint/shard_layout.h"

namespace shoal::checkpoint {

class ShardOutput {
 public:
  // A file of this rank alone, made in `directory` under the name that header gives. Regions with count 0 or saves ==
  // false are left out. Everything here throws IoError (disk full, quota, …); the file then stays, for the caller to
  // remove with its directory.
  ShardOutput(const std::filesystem::path& directory, const ShardHeader& header, const StateDict& state,
              SaveObserver observer = {});
  // A part of a shared file: `table` goes to `places`; the file's own table is left to somebody else.
  ShardOutput(std::string name, OutputFile file, const StateDict& state, RegionTable table,
              std::vector<std::int64_t> places, SaveObserver observer);

  struct WrittenRegion {
    std::size_t tensor = 0;  // index in the state
    std::int64_t bytes = 0;
    std::int64_t file_offset = 0;
  };
  const std::vector<WrittenRegion>& regions() const { return regions_; }  // in the order of the state's tensors

  // The next `bytes` bytes of region `index`, for its checksum.
  void add_to_checksum(std::size_t index, const std::byte* data, std::size_t bytes);
  // The same at byte `offset` of the region, in any order.
  void write(std::size_t index, std::int64_t offset, const std::byte* data, std::size_t bytes);
  // When both have had all bytes of all regions. The file is synced and closed.
  void finish();
  // After that: with checksums.
  const RegionTable& table() const { return table_; }
  ShardFile description() const;  // of a file of this rank's own

 private:
  ShardOutput(std::string name, LaidOutShard made, const StateDict& state, RegionTable table, SaveObserver observer);

  std::string name_;
  SaveObserver observer_;
  RegionTable table_;
  std::vector<WrittenRegion> regions_;
  std::int64_t table_offset_ = -1;  // -1: not this rank's to write
  std::int64_t data_bytes_ = 0, written_ = 0, file_bytes_ = 0;
  OutputFile file_;
};

}  // namespace shoal::checkpoint
