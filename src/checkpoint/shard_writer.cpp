#include "checkpoint/shard_writer.h"

#include <algorithm>

#include "checkpoint/file_names.h"
#include "checkpoint/hdf5_output.h"
#include "checkpoint/region_table.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"

namespace shoal::checkpoint {
namespace {

struct Plan {
  RegionTable table;
  std::vector<std::int64_t> offsets;  // of each region's bytes in the file
  std::int64_t table_offset = -1;
  std::int64_t data_bytes = 0;
};

bool is_written(const ShardedTensor& tensor) { return tensor.saves && tensor.region.count > 0; }

std::int64_t bytes_of(const ShardedTensor& tensor) { return tensor.region.count * size_of(tensor.spec.dtype); }

Plan plan_regions(const StateDict& state) {
  Plan plan;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const ShardedTensor& tensor = state.tensors[i];
    if (!is_written(tensor)) continue;
    plan.table.push_back(
        {i, static_cast<std::uint64_t>(tensor.region.begin), static_cast<std::uint64_t>(tensor.region.count), 0});
    plan.data_bytes += bytes_of(tensor);
  }
  return plan;
}

void write_header(hdf5::File& file, const ShardHeader& header) {
  hdf5::write_attribute(file, "format", std::string(kFormatName));
  hdf5::write_attribute(file, "version", std::int64_t{kFormatVersion});
  hdf5::write_attribute(file, "checkpoint", header.id);
  hdf5::write_attribute(file, "step", header.step);
  hdf5::write_attribute(file, "rank", std::int64_t{header.rank});
  hdf5::write_attribute(file, "ranks", std::int64_t{header.ranks});
}

// Fills in where the data go.
void lay_out(hdf5::File& file, const ShardHeader& header, const StateDict& state, Plan& plan) {
  write_header(file, header);
  for (const RegionRow& row : plan.table) {
    const ShardedTensor& tensor = state.tensors[row.tensor];
    const hdf5::Placement placement = hdf5::create_contiguous(
        file, shard_dataset_path(tensor.spec.name), hdf5::file_type(tensor.spec.dtype).get(), {tensor.region.count});
    SHOAL_ASSERT(placement.file_offset >= 0);
    plan.offsets.push_back(placement.file_offset);
  }
  const auto rows = static_cast<std::int64_t>(plan.table.size());
  plan.table_offset =
      hdf5::create_contiguous(file, kRegionsDataset, hdf5::uint64_file_type().get(), {rows, 4}).file_offset;
}

// The checksum is taken of the bytes as they are written, while they are in the cache.
std::uint32_t write_region(OutputFile& file, std::int64_t offset, const std::byte* data, std::int64_t bytes) {
  std::uint32_t crc = 0;
  for (std::int64_t done = 0; done < bytes; done += kChunkBytes) {
    const auto chunk = static_cast<std::size_t>(std::min(kChunkBytes, bytes - done));
    crc = crc32c(data + done, chunk, crc);
    file.write_at(offset + done, data + done, chunk);
    activity::progressed();  // a slow disk is no hang
  }
  return crc;
}

}  // namespace

ShardFile write_shard(const std::filesystem::path& directory, const ShardHeader& header, const StateDict& state,
                      const SaveObserver& observer) {
  const std::string name = shard_file_name(header.id, header.rank);
  Plan plan = plan_regions(state);
  OutputFile file = create_hdf5_output(directory / name, plan.table.size() + 1, plan.data_bytes,
                                       [&](hdf5::File& layout) { lay_out(layout, header, state, plan); });
  pass(observer, SavePoint::shard_created);
  for (std::size_t i = 0; i < plan.table.size(); ++i) {
    const ShardedTensor& tensor = state.tensors[plan.table[i].tensor];
    plan.table[i].crc = write_region(file, plan.offsets[i], tensor.region.data, bytes_of(tensor));
    if (i == plan.table.size() / 2) pass(observer, SavePoint::shard_half_written);
  }
  if (!plan.table.empty()) file.write_at(plan.table_offset, plan.table.data(), plan.table.size() * sizeof(RegionRow));
  pass(observer, SavePoint::shard_written);
  file.sync();
  const std::int64_t bytes = file.size();
  file.close();
  pass(observer, SavePoint::shard_synced);
  return {name, bytes, static_cast<std::int64_t>(plan.table.size()), table_crc(plan.table)};
}

}  // namespace shoal::checkpoint
