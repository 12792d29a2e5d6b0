#include "data/batch_shapes.h"

#include <ATen/ops/empty.h>

#include <cmath>

namespace shoal::data {
namespace {

constexpr std::int64_t kMnistSide = 28;

at::Tensor meta(at::IntArrayRef sizes, at::ScalarType type) {
  return at::empty(sizes, at::TensorOptions(at::kMeta).dtype(type));
}

}  // namespace

Batch token_shapes(std::int64_t samples, const DataRequest& request) {
  return {meta({samples, request.sequence_length}, at::kLong), meta({samples, request.sequence_length}, at::kLong),
          samples * request.sequence_length};
}

Batch masked_token_shapes(std::int64_t samples, const DataRequest& request) {
  Batch batch = token_shapes(samples, request);
  batch.predicted = std::llround(static_cast<double>(batch.predicted) * request.mask_probability);
  return batch;
}

Batch mnist_shapes(std::int64_t samples, const DataRequest& /*request*/) {
  return {meta({samples, 1, kMnistSide, kMnistSide}, at::kFloat), meta({samples}, at::kLong)};
}

}  // namespace shoal::data
