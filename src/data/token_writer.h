// Writes token files in the formats that token_file.h reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/part_file.h"
#include "data/token_source.h"

namespace shoal::data {

enum class TokenFormat { plain, llmc, megatron, hdf5 };
TokenFormat parse_token_format(const std::string& name);  // OptionError that names --format

struct TokenOutput {
  std::filesystem::path path;  // of Megatron's pair, the file of the tokens: its name ends in .bin
  TokenFormat format = TokenFormat::plain;
  TokenType type = TokenType::uint16;  // or uint32, which Megatron stores as int32
  std::filesystem::path val_path;      // empty: all tokens go to `path`
  double val_fraction = 0;             // of the tokens, the last ones go to val_path, rounded down

  std::vector<std::filesystem::path> files() const;  // all that will be written
};

// Tokens are kept in a file beside the output, not in memory; all files get their names in finish(). Failures to write
// are IoErrors.
class TokenWriter {
 public:
  explicit TokenWriter(TokenOutput output);
  void append(std::span<const std::uint32_t> tokens);
  void end_document();
  std::int64_t tokens() const { return tokens_; }
  // Once. DataError where one of the files would have no tokens.
  void finish();

 private:
  std::int64_t header_bytes() const;
  void write_file(const std::filesystem::path& path, std::int64_t begin, std::int64_t count);
  void write_companions(PartFile& file, std::int64_t begin, std::int64_t count);

  TokenOutput output_;
  PartFile spool_;  // as a file of the format will be, but for its header
  std::int64_t tokens_ = 0;
  std::vector<std::int64_t> document_ends_;  // in tokens
};

}  // namespace shoal::data
