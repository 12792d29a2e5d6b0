// Whether the HDF5 library can lock its files in a directory.
#pragma once

#include <filesystem>

#include "preflight/record.h"

namespace shoal::preflight {

// Makes, closes and opens again an HDF5 file with locks, as other programs' defaults have it. Shoal's own files go
// without, so a refusal is a warning.
Record try_hdf5_lock(const std::filesystem::path& path);

}  // namespace shoal::preflight
