#include "checkpoint/shard_layout.h"

#include <algorithm>
#include <tuple>

#include "checkpoint/file_names.h"
#include "checkpoint/hdf5_output.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"

namespace shoal::checkpoint {
namespace {

void write_header(hdf5::File& file, const ShardHeader& header) {
  hdf5::write_attribute(file, "format", std::string(kFormatName));
  hdf5::write_attribute(file, "version", std::int64_t{kFormatVersion});
  hdf5::write_attribute(file, "checkpoint", header.id);
  hdf5::write_attribute(file, "step", header.step);
  hdf5::write_attribute(file, "file", std::int64_t{header.index});
  hdf5::write_attribute(file, "files", std::int64_t{header.files});
  hdf5::write_attribute(file, "ranks", std::int64_t{header.ranks});
}

// Regions of one tensor lie in one dataset, one after the other.
void lay_out_tensors(hdf5::File& file, const StateDict& state, const RegionTable& rows, ShardPlaces& places) {
  for (auto row = rows.begin(); row != rows.end();) {
    const auto end = std::find_if(row, rows.end(), [&](const RegionRow& other) { return other.tensor != row->tensor; });
    std::int64_t count = 0;
    for (auto of_tensor = row; of_tensor != end; ++of_tensor) count += static_cast<std::int64_t>(of_tensor->count);
    const TensorSpec& spec = state.tensors[row->tensor].spec;
    std::int64_t at =
        hdf5::create_contiguous(file, shard_dataset_path(spec.name), hdf5::file_type(spec.dtype).get(), {count})
            .file_offset;
    SHOAL_ASSERT(at >= 0);
    for (; row != end; ++row) {
      places.rows.push_back(at);
      at += bytes_of(*row, state);
    }
  }
}

// Readers that have this need not ask HDF5 for each dataset. The last number is the checksum of the others.
void write_places(OutputFile& file, std::int64_t at, const ShardPlaces& places) {
  std::vector<std::uint64_t> numbers(places.rows.begin(), places.rows.end());
  numbers.push_back(crc32c(numbers.data(), numbers.size() * sizeof(std::uint64_t)));
  file.write_at(at, numbers.data(), numbers.size() * sizeof(std::uint64_t));
}

}  // namespace

std::string ShardHeader::file_name() const { return shard_file_name(id, index, files == ranks); }

std::int64_t bytes_of(const RegionRow& row, const StateDict& state) {
  return static_cast<std::int64_t>(row.count) * size_of(state.tensors[row.tensor].spec.dtype);
}

RegionTable table_of(const StateDict& state) {
  RegionTable table;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const auto& [begin, count, data, fetch] = state.tensors[i].region;
    if (!state.tensors[i].saves || count == 0) continue;
    table.push_back({i, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(count), 0});
  }
  return table;
}

SharedTable merge(const std::vector<RegionTable>& members) {
  std::vector<std::tuple<std::uint64_t, std::size_t, std::size_t>> order;  // tensor, member, row of the member
  SharedTable table;
  for (std::size_t member = 0; member < members.size(); ++member) {
    for (std::size_t row = 0; row < members[member].size(); ++row)
      order.emplace_back(members[member][row].tensor, member, row);
    table.places.emplace_back(members[member].size());
  }
  std::sort(order.begin(), order.end());
  for (const auto& [tensor, member, row] : order) {
    table.places[member][row] = table.rows.size();
    table.rows.push_back(members[member][row]);
  }
  return table;
}

LaidOutShard lay_out_shard(const std::filesystem::path& path, const ShardHeader& header, const StateDict& state,
                           const RegionTable& rows) {
  std::int64_t data_bytes = 0;
  for (const RegionRow& row : rows) data_bytes += bytes_of(row, state);
  ShardPlaces places;
  std::int64_t at = -1;
  OutputFile file = create_hdf5_output(path, rows.size() + 2, data_bytes, [&](hdf5::File& layout) {
    write_header(layout, header);
    lay_out_tensors(layout, state, rows, places);
    const hdf5::DatatypeHandle number = hdf5::uint64_file_type();
    const auto count = static_cast<std::int64_t>(rows.size());
    places.table = hdf5::create_contiguous(layout, kRegionsDataset, number.get(), {count, 4}).file_offset;
    at = hdf5::create_contiguous(layout, kPlacesDataset, number.get(), {count + 1}).file_offset;
  });
  write_places(file, at, places);
  return {std::move(file), std::move(places)};
}

}  // namespace shoal::checkpoint
