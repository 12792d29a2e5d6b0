// What the options ask of --data, given the model's shape.
#pragma once

#include <cstdint>

#include "data/data_request.h"
#include "train/options.h"

namespace shoal::train {

constexpr std::int64_t kDefaultLongest = 2048;

// How long a sample is where the model takes sequences; 0 where it does not. `options.model.shape` is complete.
// OptionError for a length that the model does not take.
std::int64_t sequence_length(const TrainOptions& options);

data::DataRequest data_request(const TrainOptions& options);

}  // namespace shoal::train
