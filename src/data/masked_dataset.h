// Masked language modelling: predict tokens that were hidden.
#pragma once

#include <memory>

#include "data/data_request.h"
#include "data/dataset.h"

namespace shoal::data {

// T = request.sequence_length. Sample i of a file is its tokens i T … i T + T - 1; a file of n tokens has n / T
// samples, rounded down. Batches: inputs int64 [n, T], corrupted as masking.h tells, anew in each epoch; targets int64
// [n, T], the true token where one is to be predicted, else -100. Null where there are no data for `split`, which only
// Split::test may say. DataError, OptionError as token_file.h and token_paths.h tell, and OptionError where vocab_size,
// mask_token, mask_probability or special_tokens make no sense.
std::unique_ptr<Dataset> open_masked_tokens(const DataRequest& request, Split split);

}  // namespace shoal::data
