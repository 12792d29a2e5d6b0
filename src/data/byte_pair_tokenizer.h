// GPT-2's tokenizer: text is cut into pieces (gpt2_pieces.h), within which pairs of tokens are merged, the lowest merge
// first (Sennrich et al. 2016, over bytes). "<|endoftext|>" in the text is the token of that name, as in Hugging Face's
// tokenizers.
#pragma once

#include <unordered_map>

#include "data/byte_pair_merging.h"
#include "data/byte_pair_vocabulary.h"
#include "data/tokenizer.h"

namespace shoal::data {

class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  std::int64_t vocab_size() const override { return vocabulary_.size(); }
  std::optional<std::uint32_t> end_of_text() const override { return vocabulary_.end_of_text(); }
  std::size_t encode_some(std::string_view text, bool is_last, std::vector<std::uint32_t>& tokens) override;
  void decode(std::uint32_t token, std::string& text) const override;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  void encode_piece(std::string_view piece, std::vector<std::uint32_t>& tokens);

  BytePairVocabulary vocabulary_;
  BytePairMerging merging_;
  // Tokens of pieces that came before: text repeats its words.
  std::unordered_map<std::string, std::vector<std::uint32_t>, Hash, std::equal_to<>> known_;
};

}  // namespace shoal::data
