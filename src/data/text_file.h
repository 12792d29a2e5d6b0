// Files of text, plain or compressed by gzip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/token_source.h"
#include "data/tokenizer.h"

namespace shoal::data {

// Whether a file that is no token file with a header holds text. Its name tells where it ends in .txt, .text or .md
// (and .gz behind that): text; or in .bin: none. Otherwise its beginning does: UTF-8 without a byte of zero is text.
bool is_text_file(const std::filesystem::path& path);

// Hands the tokens of a file to `sink` part by part, in memory that does not grow with the file (but for a single
// piece, such as a line of a gigabyte of letters without a space). The tokens are those of the whole file at once.
// Returns the bytes of the text. DataError where the file cannot be read, is damaged, or is UTF-16.
using TokenSink = std::function<void(std::span<const std::uint32_t>)>;
std::int64_t tokenize_file(const std::filesystem::path& path, Tokenizer& tokenizer, const TokenSink& sink);

// All tokens of a file, in memory: two bytes each, four where the vocabulary is larger than 65536.
std::unique_ptr<TokenSource> open_text_file(const std::filesystem::path& path, const std::string& tokenizer);

}  // namespace shoal::data
