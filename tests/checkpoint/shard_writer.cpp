#include "checkpoint/shard_writer.h"

#include <algorithm>

namespace shoal::testing {

checkpoint::ShardFile write_shard(const std::filesystem::path& directory, const checkpoint::ShardHeader& header,
                                  const StateDict& state, const checkpoint::SaveObserver& observer) {
  checkpoint::ShardOutput output(directory, header, state, observer);
  for (std::size_t index = 0; index < output.regions().size(); ++index) {
    const auto [tensor, bytes, file_offset] = output.regions()[index];
    const std::byte* data = state.tensors[tensor].region.data;
    // The checksum is taken of the bytes as they are written, while they are in the cache.
    for (std::int64_t done = 0; done < bytes; done += kChunkBytes) {
      const auto chunk = static_cast<std::size_t>(std::min(kChunkBytes, bytes - done));
      output.add_to_checksum(index, data + done, chunk);
      output.write(index, done, data + done, chunk);
    }
  }
  output.finish();
  return output.description();
}

}  // namespace shoal::testing
