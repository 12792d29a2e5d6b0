// Files of token ids in the formats that others write, told apart by their contents. docs/data.md describes them.
#pragma once

#include <filesystem>
#include <memory>

#include "data/data_request.h"
#include "data/token_source.h"

namespace shoal::data {

// Opens one file (or Megatron pair) of tokens or of text. Of the request only token_type, tokenizer and vocab_size
// count. Files are mapped, text is tokenised into memory. Throws DataError that names the file and what is wrong with
// it, OptionError for a token type or a tokenizer that there is not.
std::unique_ptr<TokenSource> open_token_file(const std::filesystem::path& path, const DataRequest& request);

}  // namespace shoal::data
