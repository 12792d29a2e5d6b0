#include "data/token_file.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "data/hdf5_tokens.h"
#include "data/llmc_header.h"
#include "data/mapped_file.h"
#include "data/megatron_index.h"
#include "data/text_file.h"

namespace shoal::data {
namespace fs = std::filesystem;
namespace {

using Mapped = std::shared_ptr<const MappedFile>;

std::unique_ptr<TokenSource> source_of(const Mapped& file, std::int64_t offset, std::int64_t count, TokenType type) {
  return make_array_source({file->bytes().data() + offset, count, type, file}, file->path().string());
}

std::int64_t whole_tokens(const MappedFile& file, std::int64_t header, TokenType type) {
  const std::int64_t bytes = file.size() - header;
  SHOAL_CHECK(bytes % bytes_of(type) == 0, DataError,
              "{}: its {} bytes of tokens are no multiple of {}, the size of {}: it is truncated, or of another "
              "--token-type",
              file.path().string(), bytes, bytes_of(type), name_of(type));
  return bytes / bytes_of(type);
}

// uint16 could not hold the tokens of a large vocabulary.
TokenType plain_type(const DataRequest& request) {
  const std::string& name = request.token_type;
  const bool is_auto = name == "auto";
  SHOAL_CHECK(is_auto || name == "uint16" || name == "uint32", OptionError,
              "--token-type {} is not known; it is auto, uint16 or uint32", name);
  const bool is_wide = is_auto ? request.vocab_size > 1 << 16 : name == "uint32";
  return is_wide ? TokenType::uint32 : TokenType::uint16;
}

std::unique_ptr<TokenSource> open_plain(const Mapped& file, TokenType type) {
  return source_of(file, 0, whole_tokens(*file, 0, type), type);
}

bool is_llmc(const MappedFile& file) {
  std::int32_t magic = 0;
  if (file.size() >= 4) std::memcpy(&magic, file.bytes().data(), sizeof(magic));
  return magic == llmc::kMagic || magic == llmc::kMagicLlama3;
}

std::unique_ptr<TokenSource> open_llmc(const Mapped& file) {
  const std::string name = file->path().string();
  SHOAL_CHECK(file->size() >= llmc::kHeaderBytes, DataError, "{}: the file ends within llm.c's header of {} bytes",
              name, llmc::kHeaderBytes);
  std::array<std::int32_t, 3> header;  // magic, version, number of tokens
  std::memcpy(header.data(), file->bytes().data(), sizeof(header));
  SHOAL_CHECK(header[1] == llmc::kVersion16 || header[1] == llmc::kVersion32, DataError,
              "{}: llm.c header of version {}; {} (uint16) and {} (uint32) are known", name, header[1],
              llmc::kVersion16, llmc::kVersion32);
  const TokenType type = header[1] == llmc::kVersion16 ? TokenType::uint16 : TokenType::uint32;
  const std::int64_t there = whole_tokens(*file, llmc::kHeaderBytes, type);
  SHOAL_CHECK(header[2] == there, DataError, "{}: its header promises {} tokens of {}, {} are there: it is damaged",
              name, header[2], name_of(type), there);
  return source_of(file, llmc::kHeaderBytes, there, type);
}

bool starts_with(const MappedFile& file, std::string_view bytes) {
  return file.size() >= static_cast<std::int64_t>(bytes.size()) &&
         std::memcmp(file.bytes().data(), bytes.data(), bytes.size()) == 0;
}

bool is_hdf5(const MappedFile& file) { return starts_with(file, "\x89HDF\r\n\x1A\n"); }
bool is_gzip(const MappedFile& file) { return starts_with(file, "\x1F\x8B"); }

std::unique_ptr<TokenSource> open_megatron(const MegatronPair& pair) {
  const auto file = std::make_shared<const MappedFile>(pair.tokens);
  const TokenType type = read_megatron_index(pair.index, file->size());
  return open_plain(file, type);
}

}  // namespace

std::unique_ptr<TokenSource> open_token_file(const fs::path& path, const DataRequest& request) {
  const TokenType type = plain_type(request);
  if (const auto pair = find_megatron_pair(path)) return open_megatron(*pair);
  const auto file = std::make_shared<const MappedFile>(path);
  SHOAL_CHECK(file->size() > 0, DataError, "{}: the file is empty", path.string());
  if (is_llmc(*file)) return open_llmc(file);
  if (is_hdf5(*file)) return open_hdf5_tokens(file);
  // Who names the type of the tokens says that they are tokens.
  if (request.token_type == "auto" && is_text_file(path)) return open_text_file(path, request.tokenizer);
  SHOAL_CHECK(!is_gzip(*file), DataError, "{}: compressed token files cannot be mapped: decompress it (gunzip)",
              path.string());
  return open_plain(file, type);
}

}  // namespace shoal::data
