#include "checkpoint/row_major_boxes.h"

#include <algorithm>

namespace shoal::checkpoint {
namespace {

// The largest box that begins at element `at` and ends at `end` at the latest.
Box box_from(const std::vector<std::int64_t>& shape, std::int64_t at, std::int64_t end) {
  Box box{std::vector<std::int64_t>(shape.size()), std::vector<std::int64_t>(shape.size(), 1), 1};
  std::int64_t rest = at, stride = 1;
  for (std::size_t i = shape.size(); i-- > 0; rest /= shape[i]) box.start[i] = rest % shape[i];
  // From the last dimension outwards, as long as the dimensions after it are in the box as a whole.
  for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    box.count[i] = std::min((end - at) / stride, shape[i] - box.start[i]);
    box.numel = box.count[i] * stride;
    if (box.count[i] < shape[i]) break;
  }
  return box;
}

}  // namespace

std::vector<Box> row_major_boxes(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t count) {
  std::vector<Box> boxes;
  for (const std::int64_t end = begin + count; begin < end; begin += boxes.back().numel)
    boxes.push_back(box_from(shape, begin, end));
  return boxes;
}

}  // namespace shoal::checkpoint
