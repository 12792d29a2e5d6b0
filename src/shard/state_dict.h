// What the engine hands to the checkpoint and back: which tensors there are in the whole job, and which elements of
// each this rank holds in host memory. No LibTorch, MPI or files: the two rooms meet here.
//
// Names are the field's: "model/<FQN>" for parameters (the fp32 master where there is one) and buffers,
// "optimizer/<state>/<FQN>" for the optimizer's moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shard/dtype.h"

namespace shoal {

struct TensorSpec {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;  // of the whole tensor; empty for a scalar
  std::int64_t numel() const;
  bool operator==(const TensorSpec&) const = default;
};

// The rule by which the tensor is cut: element e of it lies at `unit_offset + e` of the flat unit `unit`, of which
// rank r of the shard group holds [r * shard_numel, (r + 1) * shard_numel). An empty `unit`: not cut, whole on every
// rank.
struct ShardRule {
  std::string unit;
  std::int64_t unit_offset = 0;
  std::int64_t shard_numel = 0;
  bool operator==(const ShardRule&) const = default;
};

// `count` elements from element `begin` of the flattened tensor (row-major).
struct Region {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::byte* data = nullptr;  // in host memory, not owned
  // For the memory of a device, in place of `data`: copies `bytes` bytes from byte `offset` of the region to host
  // memory and returns when they are there, as they were when the StateDict was made. By one thread at a time,
  // whichever.
  std::function<void(std::int64_t offset, std::byte* to, std::size_t bytes)> fetch;
};

struct ShardedTensor {
  TensorSpec spec;
  ShardRule rule;
  Region region;                    // what this rank holds; count 0: nothing
  bool saves = true;                // false where another rank holds the same elements and writes them
  bool changes_in_forward = false;  // a buffer; everything else changes in the optimizer's step alone
};

struct StateDict {
  // On every rank the same tensors in the same order; regions differ.
  std::vector<ShardedTensor> tensors;
  // Tied names: {alias, name}, both with the "model/" in front; only `name` stands in `tensors`.
  std::vector<std::pair<std::string, std::string>> aliases;
  // Keeps alive the memory that regions point into, where it is not the engine's own (copies from a device).
  std::vector<std::shared_ptr<void>> owned;
  // What the owners want done once the regions have been filled from outside.
  std::vector<std::function<void()>> on_loaded;

  void loaded() const;
  void append(StateDict other);
};

}  // namespace shoal
