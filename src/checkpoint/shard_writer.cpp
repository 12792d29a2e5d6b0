#include "checkpoint/shard_writer.h"

#include <algorithm>

#include "core/activity.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

RegionTable plan_regions(const StateDict& state) {
  RegionTable table;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const ShardedTensor& tensor = state.tensors[i];
    if (!tensor.saves || tensor.region.count == 0) continue;
    table.push_back(
        {i, static_cast<std::uint64_t>(tensor.region.begin), static_cast<std::uint64_t>(tensor.region.count), 0});
  }
  return table;
}

// The checksum is taken of the bytes as they are written, while they are in the cache.
std::uint32_t write_region(ShardOutput& file, std::size_t region, const std::byte* data, std::int64_t bytes) {
  std::uint32_t crc = 0;
  for (std::int64_t done = 0; done < bytes; done += kChunkBytes) {
    const auto chunk = static_cast<std::size_t>(std::min(kChunkBytes, bytes - done));
    crc = crc32c(data + done, chunk, crc);
    file.write(region, done, data + done, chunk);
    activity::progressed();  // a slow disk is no hang
  }
  return crc;
}

}  // namespace

ShardFile write_shard(const std::filesystem::path& directory, const ShardHeader& header, const StateDict& state,
                      const SaveObserver& observer) {
  std::vector<const TensorSpec*> specs;
  for (const ShardedTensor& tensor : state.tensors) specs.push_back(&tensor.spec);
  ShardOutput file(directory, header, specs, plan_regions(state));
  pass(observer, SavePoint::shard_created);
  const std::size_t regions = file.regions().size();
  for (std::size_t i = 0; i < regions; ++i) {
    const ShardedTensor& tensor = state.tensors[file.regions()[i].tensor];
    const std::int64_t bytes = tensor.region.count * size_of(tensor.spec.dtype);
    file.set_crc(i, write_region(file, i, tensor.region.data, bytes));
    if (i == regions / 2) pass(observer, SavePoint::shard_half_written);
  }
  file.write_table();
  pass(observer, SavePoint::shard_written);
  const ShardFile written = file.finish();
  pass(observer, SavePoint::shard_synced);
  return written;
}

}  // namespace shoal::checkpoint
