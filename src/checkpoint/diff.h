// What tells two checkpoints apart, whatever numbers of ranks they are of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/compare_elements.h"
#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

enum class TensorState { equal, different, other_shape, other_dtype, only_in_a, only_in_b };
const char* name_of(TensorState state);  // "equal", "different", "other shape", …, "only in B"

struct TensorDiff {
  std::string name;
  TensorState state = TensorState::equal;
  TensorSpec a, b;  // of the side that has it
  ElementDifferences elements;
};

struct DiffReport {
  std::filesystem::path a, b;
  std::int64_t step_a = 0, step_b = 0;
  std::vector<TensorDiff> tensors;  // in the order of A, then what B alone has
  bool same_training_state = true;
  std::int64_t bytes = 0;  // read, of both
  double seconds = 0;

  std::int64_t count(TensorState state) const;
  bool same_tensors() const;
};

// Reads every byte of the tensors that both have in one shape and type, compares it with its checksum and with the
// other side. Another name of a tensor (an alias) counts as a tensor. Memory is bounded by manifests, tables of regions
// and a piece of kChunkBytes of each. CheckpointError where one is damaged.
DiffReport diff(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace shoal::checkpoint
