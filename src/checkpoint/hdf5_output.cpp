#include "checkpoint/hdf5_output.h"

namespace shoal::checkpoint {

OutputFile create_hdf5_output(const std::filesystem::path& path, std::size_t datasets, std::int64_t data_bytes,
                              const std::function<void(hdf5::File&)>& lay_out) {
  // More than HDF5 takes for headers, names and alignment. The limit holds for files in memory too, and HDF5 must not
  // run into it.
  constexpr std::int64_t kFixedBytes = 1 << 20, kBytesPerDataset = 8 << 10;
  check_file_size_limit(path, data_bytes + kFixedBytes + static_cast<std::int64_t>(datasets) * kBytesPerDataset);
  OutputFile output(path);
  hdf5::File layout = hdf5::File::create_in_memory(path.string());
  lay_out(layout);
  const std::int64_t size = layout.close_into(
      [&](std::int64_t offset, const void* data, std::size_t bytes) { output.write_at(offset, data, bytes); });
  output.resize(size);
  return output;
}

}  // namespace shoal::checkpoint
