// Datasets that others have made: found by walking through the file, and read through HDF5 in boxes whatever their
// layout (chunked, compressed, compact) and byte order.
#pragma once

#include <string>
#include <vector>

#include "hdf5/dataset.h"

namespace shoal::hdf5 {

struct AnyDataset {
  std::string path;     // "/h/0/weight"
  Placement placement;  // file_offset -1: to be read with read_box()
  std::string problem;  // why it cannot be read; empty: it can
};

// Every dataset under every name it has: hard links and soft links, in the order of the names. A link that leads to
// nothing or to another file, a dataset whose elements are kept in other files, and one without elements of a type of
// ours has a `problem`. Hdf5Error where the file cannot be walked through.
std::vector<AnyDataset> find_datasets(const File& file);

// The elements from `start` on, `count` along each dimension, row-major and as `dtype` in memory, into `into`.
void read_box(const File& file, const std::string& path, DType dtype, const std::vector<std::int64_t>& start,
              const std::vector<std::int64_t>& count, void* into);

}  // namespace shoal::hdf5
