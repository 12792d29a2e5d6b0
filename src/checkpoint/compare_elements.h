// How far two rows of elements of one type are from each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shard/dtype.h"

namespace shoal::checkpoint {

struct ElementDifferences {
  std::int64_t count = 0;   // of elements whose bytes differ: also 0.0 and -0.0, and two NaNs of other bits
  std::int64_t first = -1;  // the first of them
  double max_absolute = 0;  // |a - b|; infinite where one is NaN and the other is not
  double max_relative = 0;  // |a - b| / max(|a|, |b|); infinite likewise
};

// Adds what `count` elements add. `first`: the index of a[0].
void compare_elements(DType dtype, const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t first,
                      ElementDifferences& total);

}  // namespace shoal::checkpoint
