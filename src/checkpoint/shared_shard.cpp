#include "checkpoint/shared_shard.h"

#include <cstring>

#include "checkpoint/agreement.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

std::vector<RegionTable> gather(comm::ProcessGroup& group, const RegionTable& mine) {
  std::vector<RegionTable> tables;
  for (const std::string& bytes : comm::all_gather_bytes(group, table_bytes(mine)))
    tables.push_back(table_from_bytes(bytes));
  return tables;
}

std::string to_bytes(const ShardPlaces& places) {
  std::vector<std::int64_t> numbers = places.rows;
  numbers.push_back(places.table);
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int64_t)};
}

ShardPlaces places_from(const std::string& bytes) {
  ShardPlaces places;
  places.rows.resize(bytes.size() / sizeof(std::int64_t));
  std::memcpy(places.rows.data(), bytes.data(), bytes.size());
  places.table = places.rows.back();
  places.rows.pop_back();
  return places;
}

}  // namespace

SharedShard::SharedShard(comm::ProcessGroup& group, const std::filesystem::path& directory, const ShardHeader& header,
                         const StateDict& state)
    : group_(group),
      name_(header.file_name()),
      path_(directory / name_),
      mine_(table_of(state)),
      shared_(merge(gather(group, mine_))) {
  places_ = places_from(run_on_root(group, [&] {
    LaidOutShard made = lay_out_shard(path_, header, state, shared_.rows);
    made.file.close();
    return to_bytes(made.places);
  }));
}

ShardOutput SharedShard::output(const StateDict& state, SaveObserver observer) {
  std::vector<std::int64_t> own;
  for (const std::size_t row : shared_.places[static_cast<std::size_t>(group_.rank())])
    own.push_back(places_.rows.at(row));
  return {name_, OutputFile::open_existing(path_), state, std::move(mine_), std::move(own), std::move(observer)};
}

ShardFile SharedShard::complete(const RegionTable& table) {
  const std::vector<RegionTable> tables = gather(group_, table);
  ShardFile description;
  run_on_root(group_, [&] {
    const RegionTable rows = merge(tables).rows;
    OutputFile file = OutputFile::open_existing(path_);
    if (!rows.empty()) file.write_at(places_.table, rows.data(), rows.size() * sizeof(RegionRow));
    file.sync();
    description = {name_, file.size(), static_cast<std::int64_t>(rows.size()), table_crc(rows)};
    file.close();
    return std::string();
  });
  return description;
}

}  // namespace shoal::checkpoint
