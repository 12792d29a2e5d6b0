#include "fsdp/host_memory.h"

#include <ATen/core/grad_mode.h>

#include "core/check.h"

namespace shoal::fsdp {

std::byte* host_memory(const at::Tensor& tensor, StateDict& state) {
  SHOAL_ASSERT(tensor.is_contiguous());
  if (tensor.is_cpu()) return static_cast<std::byte*>(tensor.data_ptr());
  const auto copy = std::make_shared<at::Tensor>(tensor.cpu());
  state.owned.push_back(copy);
  state.on_loaded.push_back([tensor, copy] {
    const at::NoGradGuard no_grad;
    at::Tensor(tensor).copy_(*copy);
  });
  return static_cast<std::byte*>(copy->data_ptr());
}

}  // namespace shoal::fsdp
