// From a layout that HDF5 made in memory to a file whose data can be written.
#pragma once

#include <functional>

#include "core/file_io.h"
#include "hdf5/file.h"

namespace shoal::checkpoint {

// Makes `path` with what `lay_out` puts into the file: datasets (create_contiguous) without their data, attributes.
// `datasets` and `data_bytes`: how much that will be. IoError where the file cannot be written.
OutputFile create_hdf5_output(const std::filesystem::path& path, std::size_t datasets, std::int64_t data_bytes,
                              const std::function<void(hdf5::File&)>& lay_out);

}  // namespace shoal::checkpoint
