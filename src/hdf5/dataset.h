// Contiguous datasets whose bytes are read and written past HDF5: HDF5 lays the file out and tells where the elements
// lie, then plain pread and pwrite move them, in any number of threads and without a lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hdf5/file.h"
#include "shard/dtype.h"

namespace shoal::hdf5 {

// Where a dataset's elements lie in its file.
struct Placement {
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::int64_t element_bytes = 0;
  std::optional<DType> dtype;     // nothing: a type that is none of ours
  std::int64_t file_offset = -1;  // bytes from the start of the file; -1: no elements, or they do not lie in one piece
  std::int64_t numel() const;
};

// Space is allocated at once and never filled by HDF5. `name`: absolute path; groups on the way are made.
Placement create_contiguous(File& file, const std::string& name, hid_t type, const std::vector<std::int64_t>& shape);

// Hdf5Error where there is no such dataset.
Placement find_dataset(const File& file, const std::string& name);

}  // namespace shoal::hdf5
