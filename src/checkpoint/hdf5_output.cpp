#include "checkpoint/hdf5_output.h"

namespace shoal::checkpoint {

Hdf5Layout lay_out_hdf5_file(const std::filesystem::path& path, std::size_t datasets, std::int64_t data_bytes,
                             const std::function<void(hdf5::File&)>& lay_out) {
  // More than HDF5 takes for headers, names and alignment. The limit holds for files in memory too, and HDF5 must not
  // run into it.
  constexpr std::int64_t kFixedBytes = 1 << 20, kBytesPerDataset = 8 << 10;
  check_file_size_limit(path, data_bytes + kFixedBytes + static_cast<std::int64_t>(datasets) * kBytesPerDataset);
  hdf5::File file = hdf5::File::create_in_memory(path.string());
  lay_out(file);
  Hdf5Layout layout;
  layout.bytes = file.close_into([&](std::int64_t offset, const void* data, std::size_t bytes) {
    layout.structure.emplace_back(offset, std::string(static_cast<const char*>(data), bytes));
  });
  return layout;
}

OutputFile create_hdf5_output(const std::filesystem::path& path, std::size_t datasets, std::int64_t data_bytes,
                              const std::function<void(hdf5::File&)>& lay_out) {
  const Hdf5Layout layout = lay_out_hdf5_file(path, datasets, data_bytes, lay_out);
  OutputFile output(path);
  for (const auto& [offset, bytes] : layout.structure) output.write_at(offset, bytes.data(), bytes.size());
  output.resize(layout.bytes);
  return output;
}

}  // namespace shoal::checkpoint
