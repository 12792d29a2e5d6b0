// Batches without values, for who asks what a model does with their shapes: tensors of LibTorch's meta device.
#pragma once

#include <cstdint>

#include "data/data_request.h"
#include "data/dataset.h"

namespace shoal::data {

// As those of the datasets of this layer, of `samples` samples; of `request` the length and the rule of the masks
// count.
Batch token_shapes(std::int64_t samples, const DataRequest& request);
// With as many places to be predicted as there are on average.
Batch masked_token_shapes(std::int64_t samples, const DataRequest& request);
Batch mnist_shapes(std::int64_t samples, const DataRequest& request);

}  // namespace shoal::data
