#include "data/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>

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

std::optional<fs::path> find_in(const fs::path& folder, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names)
    if (fs::exists(folder / name, ignored)) return folder / name;
  return std::nullopt;
}

// Encodings of GPT-2's kind may number their tokens otherwise (RoBERTa's does); ours follows from the merges alone.
void check_numbers(const BytePairVocabulary& vocabulary, const fs::path& path) {
  const auto numbers = nlohmann::json::parse(contents_of(path), nullptr, false);
  SHOAL_CHECK(numbers.is_object(), DataError, "{}: this is no JSON object with the numbers of tokens", path.string());
  for (std::uint32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string form = vocabulary.written_form(token);
    const auto found = numbers.find(form);
    if (token == vocabulary.end_of_text() && found == numbers.end()) continue;  // it is not in all of them
    SHOAL_CHECK(found != numbers.end() && *found == token, DataError,
                "{}: '{}' has not the number {} that the merges beside it give it: this is no encoding of GPT-2's kind",
                path.string(), form, token);
  }
}

BytePairVocabulary read_vocabulary(const fs::path& folder) {
  const auto merges = find_in(folder, {"vocab.bpe", "merges.txt"});
  SHOAL_CHECK(merges, OptionError,
              "--tokenizer {} is neither gpt2 nor bytes nor a folder with a file vocab.bpe or merges.txt",
              folder.string());
  BytePairVocabulary vocabulary(contents_of(*merges), merges->string());
  if (const auto numbers = find_in(folder, {"encoder.json", "vocab.json"})) check_numbers(vocabulary, *numbers);
  return vocabulary;
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  if (name == "gpt2") return std::make_unique<BytePairTokenizer>(BytePairVocabulary(gpt2_merges(), "gpt2"));
  return std::make_unique<BytePairTokenizer>(read_vocabulary(name));
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
