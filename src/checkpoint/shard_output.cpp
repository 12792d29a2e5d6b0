#include "checkpoint/shard_output.h"

#include "checkpoint/file_names.h"
#include "checkpoint/hdf5_output.h"
#include "core/check.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"

namespace shoal::checkpoint {
namespace {

using Specs = std::span<const TensorSpec* const>;

std::int64_t bytes_of(const RegionRow& row, Specs specs) {
  return static_cast<std::int64_t>(row.count) * size_of(specs[row.tensor]->dtype);
}

std::int64_t data_bytes(const RegionTable& table, Specs specs) {
  std::int64_t bytes = 0;
  for (const RegionRow& row : table) bytes += bytes_of(row, specs);
  return bytes;
}

void write_header(hdf5::File& file, const ShardHeader& header) {
  hdf5::write_attribute(file, "format", std::string(kFormatName));
  hdf5::write_attribute(file, "version", std::int64_t{kFormatVersion});
  hdf5::write_attribute(file, "checkpoint", header.id);
  hdf5::write_attribute(file, "step", header.step);
  hdf5::write_attribute(file, "rank", std::int64_t{header.rank});
  hdf5::write_attribute(file, "ranks", std::int64_t{header.ranks});
}

// Returns where each region goes.
std::vector<std::int64_t> lay_out_regions(hdf5::File& file, const RegionTable& table, Specs specs) {
  std::vector<std::int64_t> offsets;
  for (auto first = table.begin(), last = first; first != table.end(); first = last) {
    const TensorSpec& spec = *specs[first->tensor];
    std::int64_t elements = 0;
    for (; last != table.end() && last->tensor == first->tensor; ++last)
      elements += static_cast<std::int64_t>(last->count);
    const hdf5::Placement placement =
        hdf5::create_contiguous(file, shard_dataset_path(spec.name), hdf5::file_type(spec.dtype).get(), {elements});
    SHOAL_ASSERT(placement.file_offset >= 0);
    std::int64_t offset = placement.file_offset;
    for (auto row = first; row != last; offset += bytes_of(*row++, specs)) offsets.push_back(offset);
  }
  return offsets;
}

}  // namespace

ShardOutput::ShardOutput(const std::filesystem::path& directory, const ShardHeader& header, Specs specs,
                         RegionTable table)
    : name_(shard_file_name(header.id, header.rank)),
      table_(std::move(table)),
      file_(create_hdf5_output(directory / name_, table_.size() + 1, data_bytes(table_, specs), [&](hdf5::File& file) {
        write_header(file, header);
        offsets_ = lay_out_regions(file, table_, specs);
        const auto rows = static_cast<std::int64_t>(table_.size());
        table_offset_ =
            hdf5::create_contiguous(file, kRegionsDataset, hdf5::uint64_file_type().get(), {rows, 4}).file_offset;
      })) {}

void ShardOutput::write(std::size_t region, std::int64_t offset, const std::byte* data, std::size_t bytes) {
  file_.write_at(offsets_.at(region) + offset, data, bytes);
}

void ShardOutput::write_table() {
  if (!table_.empty()) file_.write_at(table_offset_, table_.data(), table_.size() * sizeof(RegionRow));
}

ShardFile ShardOutput::finish() {
  file_.sync();
  const std::int64_t bytes = file_.size();
  file_.close();
  return {name_, bytes, static_cast<std::int64_t>(table_.size()), table_crc(table_)};
}

}  // namespace shoal::checkpoint
