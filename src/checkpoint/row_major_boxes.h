// A range of a flattened tensor as boxes of the tensor: what a rank holds, in the terms of HDF5's hyperslabs.
#pragma once

#include <cstdint>
#include <vector>

namespace shoal::checkpoint {

struct Box {
  std::vector<std::int64_t> start, count;  // for each dimension
  std::int64_t numel = 0;
};

// Boxes that hold elements [begin, begin + count) of a row-major tensor of `shape`: in order, each of them one piece of
// the flattened tensor, at most two a dimension.
std::vector<Box> row_major_boxes(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t count);

}  // namespace shoal::checkpoint
