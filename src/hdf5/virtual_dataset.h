// Datasets whose elements lie in other files (HDF5's virtual datasets).
#pragma once

#include <string>
#include <vector>

#include "hdf5/file.h"
#include "shard/dtype.h"

namespace shoal::hdf5 {

// A box of the virtual dataset, and the elements of a dataset of one dimension that are seen in it, in row-major order.
struct MappedBox {
  std::vector<std::int64_t> start, count;  // of each dimension; empty: a scalar
  std::string file;                        // relative to the directory of the file that is being made
  std::string dataset;                     // absolute path there
  std::int64_t source_numel = 0;           // all elements of that dataset
  std::int64_t source_begin = 0;           // the first that is seen here
};

// No source is looked at, now; boxes must not overlap. Elements whose source is missing when somebody reads them, or
// that no box holds, are NaN where the type has one, the smallest value of signed integers, 255 of uint8, and false.
void create_virtual(File& file, const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
                    const std::vector<MappedBox>& boxes);

}  // namespace shoal::hdf5
