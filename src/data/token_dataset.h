// Language modelling: predict each next token.
#pragma once

#include <memory>

#include "data/data_request.h"
#include "data/dataset.h"

namespace shoal::data {

// T = request.sequence_length. Sample i of a file is its tokens i T … i T + T - 1, the targets are the tokens
// i T + 1 … i T + T; a file of n tokens has (n - 1) / T samples, rounded down. Batches: inputs int64 [n, T], targets
// int64 [n, T]. Null where there are no data for `split`, which only Split::test may say. DataError, OptionError as
// token_file.h and token_paths.h tell.
std::unique_ptr<Dataset> open_tokens(const DataRequest& request, Split split);

}  // namespace shoal::data
