// A step of an optimizer over flat shards in the memory of a GPU: all arrays and parameter groups in one launch.
#pragma once

#include <cstdint>
#include <span>

#include "optim/device_table.h"

namespace shoal::optim {

// One flat shard. Its elements count from 0 in every array.
struct DeviceArrays {
  void* param = nullptr;
  const void* grad = nullptr;  // null: there is none, and nothing of this shard changes
  void* state0 = nullptr;      // what the rule does not have is null
  void* state1 = nullptr;
  void* rounded = nullptr;  // gets the new parameters, rounded to nearest even; may be null
  DType rounded_dtype = DType::float32;
  bool aligned = false;  // step_on_device() finds out: four elements are one load of any array
};

// Applies rules[span.group] to each span of `table`, whose array numbers count in `arrays`. Queued on `stream` (a
// cudaStream_t); `arrays` and `rules` may be changed when it returns.
template <typename T, typename Rule>
void step_on_device(DeviceTable& table, std::span<const DeviceArrays> arrays, std::span<const Rule> rules,
                    void* stream);

}  // namespace shoal::optim
