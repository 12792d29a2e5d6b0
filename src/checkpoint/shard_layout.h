// The plan of one shard file: which regions of which of its writers go where.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/region_table.h"
#include "core/file_io.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

struct ShardHeader {
  std::string id;
  std::int64_t step = 0;
  int index = 0, files = 0;  // this file's number, and how many there are
  int ranks = 0;             // of the job

  std::string file_name() const;  // relative to the checkpoint
};

// What this rank saves, without checksums.
RegionTable table_of(const StateDict& state);

// The table of a file that several ranks write: in the order of the tensors, and of one tensor in that of the members.
struct SharedTable {
  RegionTable rows;
  std::vector<std::vector<std::size_t>> places;  // for each member, where in `rows` its own are, in their order
};
SharedTable merge(const std::vector<RegionTable>& members);

struct ShardPlaces {
  std::vector<std::int64_t> rows;  // byte of the file at which each row's elements begin
  std::int64_t table = -1;         // and the table itself
};

struct LaidOutShard {
  OutputFile file;
  ShardPlaces places;
};

// Makes the file with all that HDF5 has a say in; the data are a hole. The tensors' types are `state`'s.
LaidOutShard lay_out_shard(const std::filesystem::path& path, const ShardHeader& header, const StateDict& state,
                           const RegionTable& rows);

// Elements of a row in bytes.
std::int64_t bytes_of(const RegionRow& row, const StateDict& state);

}  // namespace shoal::checkpoint
