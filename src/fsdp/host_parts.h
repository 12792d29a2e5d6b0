// A contiguous tensor on the host in parts that threads share. The parts depend on its size alone, not on the threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "optim/in_parallel.h"

namespace shoal::fsdp {

inline constexpr std::int64_t kHostPart = 1 << 17;  // elements: some hundred microseconds of work for a thread

inline std::size_t host_parts(const at::Tensor& tensor) {
  return static_cast<std::size_t>((tensor.numel() + kHostPart - 1) / kHostPart);
}

// Calls part(number, data, elements) for each, on LibTorch's threads.
template <typename Part>
void for_each_host_part(const at::Tensor& tensor, Part&& part) {
  const auto* const data = static_cast<const char*>(tensor.const_data_ptr());
  const std::int64_t width = tensor.element_size(), count = tensor.numel();
  optim::in_parallel(static_cast<std::int64_t>(host_parts(tensor)), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      part(static_cast<std::size_t>(i), data + i * kHostPart * width, std::min(kHostPart, count - i * kHostPart));
  });
}

}  // namespace shoal::fsdp
