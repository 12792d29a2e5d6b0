// Which files --data and --test-data mean.
#pragma once

#include <filesystem>
#include <vector>

#include "data/data_request.h"
#include "data/dataset.h"

namespace shoal::data {

// A path that is no folder is meant itself. Of a folder, in the order of their names, those files are meant that have
// one of these words in their names, between '_', '-', '.' and the ends: train; for the test split val, valid or
// validation, or where there is none of those, test. Of a Megatron pair X.bin and X.idx, X.bin stands for both.
// Files whose names begin with '.' or end in .part are not meant.
// Empty only where `split` is test, --test-data is not given, and --data is a file or a folder without such files.
// Throws DataError where a path does not exist, or a folder holds no file for the split that is asked for.
std::vector<std::filesystem::path> token_paths(const DataRequest& request, Split split);

}  // namespace shoal::data
