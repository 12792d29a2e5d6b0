#include "optim/in_parallel.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include "core/check.h"

namespace shoal::optim {

// at::parallel_for is a template that has threads only where it is compiled with LibTorch's own OpenMP. The iterator
// is how LibTorch's element-wise operators, which are, share their work: over an array of `count` bytes that nobody
// reads, the places of its parts are the ranges.
void in_parallel(std::int64_t count, std::int64_t grain,
                 const std::function<void(std::int64_t begin, std::int64_t end)>& work) {
  if (count == 0) return;
  at::Tensor places = at::empty({count}, at::kByte);
  const auto* const base = static_cast<const char*>(places.const_data_ptr());
  at::TensorIterator iterator = at::TensorIterator::nullary_op(places);
  const auto call = [&](char** data, const std::int64_t* /*strides*/, std::int64_t size, std::int64_t rows) {
    SHOAL_ASSERT(rows == 1);  // a flat array has no second dimension
    work(data[0] - base, data[0] - base + size);
  };
  iterator.for_each(call, grain);
}

}  // namespace shoal::optim
