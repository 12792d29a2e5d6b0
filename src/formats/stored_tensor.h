// Where a tensor's elements lie in a file that keeps them as plain little-endian bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shard/state_dict.h"

namespace shoal::formats {

struct StoredTensor {
  TensorSpec spec;           // the name as the file has it
  std::uint64_t offset = 0;  // bytes from the start of the file to the first element
  // In elements, one for each dimension, none negative; empty: row-major without gaps.
  std::vector<std::int64_t> strides;
};

// What a file holds beside tensors that Shoal can use, with the reason why it is not one of them.
struct OtherEntry {
  std::string name;
  std::string reason;
};

struct StoredTensors {
  std::vector<StoredTensor> tensors;
  std::vector<OtherEntry> others;
  std::vector<std::string> notes;  // what the reader had to understand, a line each
};

// Bytes of `count` elements of the shape; nothing where that is not countable: a negative extent, more than 64
// dimensions, or more bytes than a signed 64-bit number holds even if the extents of zero were ones.
std::optional<std::int64_t> bytes_of(DType dtype, const std::vector<std::int64_t>& shape);

}  // namespace shoal::formats
