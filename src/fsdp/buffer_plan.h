// Which units have buffers at a time, and where each has its own in the memory that units share: as a function of their
// sizes and the options alone, the same on all ranks.
//
// Units are expected to be used in the order of the module, and their gradients to come in the opposite order. What is
// used otherwise takes what is free (BufferPool), which suffices for units of one size in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fsdp/unit_sizes.h"

namespace shoal::fsdp {

// One reduction runs while the next unit's gradients are computed; more would only hold more whole gradients.
inline constexpr std::size_t kReductionsInFlight = 2;

// Where a buffer may begin.
inline constexpr std::int64_t kBufferAlignment = 256;
constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Of one kind of buffer. The root, which is whole and collects gradients through a whole pass, has memory of its own.
struct BufferPlan {
  std::int64_t shared = 0, root = 0;              // bytes
  std::vector<std::vector<std::int64_t>> places;  // of each unit's flat parameters, bytes from the memory's beginning
  std::int64_t bytes() const { return shared + root; }
};

struct BufferPlans {
  BufferPlan parameters;      // whole ones
  BufferPlan sent, received;  // whole gradients on their way
  // Of each unit: the reductions that may be under way once its own is. Fewer than kReductionsInFlight beside a unit so
  // large that memory for both would be more than others ever need.
  std::vector<std::size_t> in_flight;
  std::int64_t bytes() const { return parameters.bytes() + sent.bytes() + received.bytes(); }
};
BufferPlans plan_buffers(const std::vector<UnitSizes>& units, const FullyShardOptions& options);

}  // namespace shoal::fsdp
