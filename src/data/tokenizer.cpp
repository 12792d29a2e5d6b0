#include "data/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/check.h"
#include "data/byte_pair_tokenizer.h"
#include "data/gpt2_vocabulary.h"

namespace shoal::data {
namespace fs = std::filesystem;
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::int64_t vocab_size() const override { return 256; }
  std::optional<std::uint32_t> end_of_text() const override { return std::nullopt; }
  std::size_t encode_some(std::string_view text, bool /*is_last*/, std::vector<std::uint32_t>& tokens) override {
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return text.size();
  }
  void decode(std::uint32_t token, std::string& text) const override {
    SHOAL_CHECK(token < 256, DataError, "token {} is no byte", token);
    text.push_back(static_cast<char>(token));
  }
};

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string contents{std::istreambuf_iterator<char>(file), {}};
  SHOAL_CHECK(file.is_open() && !file.bad(), DataError, "cannot read {}", path.string());
  return contents;
}

fs::path merges_in(const fs::path& folder) {
  for (const char* name : {"vocab.bpe", "merges.txt"}) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  throw OptionError("--tokenizer {} is neither gpt2 nor bytes nor a folder with a file vocab.bpe or merges.txt",
                    folder.string());
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  if (name == "gpt2") return std::make_unique<BytePairTokenizer>(BytePairVocabulary(gpt2_merges(), "gpt2"));
  const fs::path path = merges_in(name);
  return std::make_unique<BytePairTokenizer>(BytePairVocabulary(contents_of(path), path.string()));
}

std::vector<std::uint32_t> encode(Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::uint32_t> tokens;
  tokenizer.encode_some(text, true, tokens);
  return tokens;
}

std::string decode(const Tokenizer& tokenizer, std::span<const std::uint32_t> tokens) {
  std::string text;
  for (const std::uint32_t token : tokens) tokenizer.decode(token, text);
  return text;
}

}  // namespace shoal::data
