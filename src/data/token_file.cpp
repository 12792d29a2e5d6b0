#include "data/token_file.h"

#include <array>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "data/mapped_file.h"
#include "data/megatron_index.h"

namespace shoal::data {
namespace fs = std::filesystem;
namespace {

// llm.c: a header of 256 int32, of which three are used, then the tokens.
namespace llmc {
constexpr std::int64_t kHeaderBytes = 256 * 4;
constexpr std::int32_t kMagic = 20240520, kMagicLlama3 = 20240801;
}  // namespace llmc

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

TokenType plain_type(const std::string& name) {
  if (name == "auto" || name == "uint16") return TokenType::uint16;
  SHOAL_CHECK(name == "uint32", OptionError, "--token-type {} is not known; it is auto, uint16 or uint32", name);
  return TokenType::uint32;
}

std::unique_ptr<TokenSource> open_plain(const Mapped& file, TokenType type) {
  return source_of(file, 0, whole_tokens(*file, 0, type), type);
}

bool starts_with_word(const MappedFile& file, std::int32_t word) {
  return file.size() >= 4 && std::memcmp(file.bytes().data(), &word, 4) == 0;
}

bool is_llmc(const MappedFile& file) {
  return starts_with_word(file, llmc::kMagic) || starts_with_word(file, llmc::kMagicLlama3);
}

std::unique_ptr<TokenSource> open_llmc(const Mapped& file) {
  const std::string name = file->path().string();
  SHOAL_CHECK(file->size() >= llmc::kHeaderBytes, DataError, "{}: the file ends within llm.c's header of {} bytes",
              name, llmc::kHeaderBytes);
  std::array<std::int32_t, 3> header;  // magic, version, number of tokens
  std::memcpy(header.data(), file->bytes().data(), sizeof(header));
  SHOAL_CHECK(header[1] == 1 || header[1] == 7, DataError,
              "{}: llm.c header of version {}; 1 (uint16) and 7 (uint32) are known", name, header[1]);
  const TokenType type = header[1] == 1 ? TokenType::uint16 : TokenType::uint32;
  const std::int64_t there = whole_tokens(*file, llmc::kHeaderBytes, type);
  SHOAL_CHECK(header[2] == there, DataError, "{}: its header promises {} tokens of {}, {} are there: it is damaged",
              name, header[2], name_of(type), there);
  return source_of(file, llmc::kHeaderBytes, there, type);
}

std::unique_ptr<TokenSource> open_megatron(const MegatronPair& pair) {
  const auto file = std::make_shared<const MappedFile>(pair.tokens);
  const TokenType type = read_megatron_index(pair.index, file->size());
  return open_plain(file, type);
}

}  // namespace

std::unique_ptr<TokenSource> open_token_file(const fs::path& path, const DataRequest& request) {
  const TokenType type = plain_type(request.token_type);
  if (const auto pair = find_megatron_pair(path)) return open_megatron(*pair);
  const auto file = std::make_shared<const MappedFile>(path);
  SHOAL_CHECK(file->size() > 0, DataError, "{}: the file is empty", path.string());
  if (is_llmc(*file)) return open_llmc(file);
  return open_plain(file, type);
}

}  // namespace shoal::data
