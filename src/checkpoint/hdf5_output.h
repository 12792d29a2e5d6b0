// From a layout that HDF5 made in memory to a file whose data can be written.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/file_io.h"
#include "hdf5/file.h"

namespace shoal::checkpoint {

struct Hdf5Layout {
  std::vector<std::pair<std::int64_t, std::string>> structure;  // (offset, bytes): all but the data
  std::int64_t bytes = 0;                                       // of the whole file
};

// What `lay_out` puts into a file at `path`, which is not made: datasets (create_contiguous) without their data,
// attributes. `datasets` and `data_bytes`: how much that will be. IoError where a file may not be as large.
Hdf5Layout lay_out_hdf5_file(const std::filesystem::path& path, std::size_t datasets, std::int64_t data_bytes,
                             const std::function<void(hdf5::File&)>& lay_out);

// The same, and makes `path`. IoError where the file cannot be written.
OutputFile create_hdf5_output(const std::filesystem::path& path, std::size_t datasets, std::int64_t data_bytes,
                              const std::function<void(hdf5::File&)>& lay_out);

}  // namespace shoal::checkpoint
