// Files with the library's own locks, which many parallel file systems refuse. Shoal's files go without (file.h); this
// is for finding out.
#pragma once

#include <filesystem>

#include "hdf5/call.h"

namespace shoal::hdf5 {

// Makes an empty file under the lock of a writer, and opens it under that of a reader. Hdf5Error where one is refused.
// HDF5 writes to the disk here: only where there is room, see file.h.
void write_file_with_lock(const std::filesystem::path& path);

}  // namespace shoal::hdf5
