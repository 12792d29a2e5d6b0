// Tokens in an HDF5 file.
#pragma once

#include <memory>

#include "data/mapped_file.h"
#include "data/token_source.h"

namespace shoal::data {

// The file's one dataset of integers with one dimension, whatever its name; other datasets do not matter. It is mapped
// where its bytes lie in one piece and are of a type of ours, else HDF5 reads it (chunks, compression, big-endian).
// DataError where there is no such dataset, or more than one.
std::unique_ptr<TokenSource> open_hdf5_tokens(const std::shared_ptr<const MappedFile>& file);

}  // namespace shoal::data
