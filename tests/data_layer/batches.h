// What is in a tensor of a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace shoal::data {

inline std::vector<std::int64_t> values(const at::Tensor& tensor) {
  const std::int64_t* from = tensor.const_data_ptr<std::int64_t>();
  return {from, from + tensor.numel()};
}

}  // namespace shoal::data
