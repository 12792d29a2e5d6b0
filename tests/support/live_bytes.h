// Bytes of CPU tensors that LibTorch's allocator gave to a thread and did not get back.
#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstdint>

namespace shoal::testing {

// On the thread that says: const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, live_bytes);
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    live += size;
    peak = std::max(peak, live);
  }
  void reportOutOfMemory(std::int64_t, std::size_t, std::size_t, c10::Device) override {}
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t live = 0, peak = 0;
};

}  // namespace shoal::testing
