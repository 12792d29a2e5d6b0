#include "data/byte_pair_tokenizer.h"

#include "core/check.h"
#include "data/byte_pair_merging.h"
#include "data/gpt2_pieces.h"

namespace shoal::data {
namespace {

constexpr std::size_t kKnownPieces = 1 << 18;  // some 20 MB; forgotten all at once when they are more
constexpr std::size_t kLongestKnown = 64;      // bytes: longer ones do not come twice

}  // namespace

void BytePairTokenizer::encode_piece(std::string_view piece, std::vector<std::uint32_t>& tokens) {
  const auto known = known_.find(piece);
  if (known != known_.end()) {
    tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    return;
  }
  const std::size_t before = tokens.size();
  merging_.run(vocabulary_, piece, tokens);
  if (piece.size() > kLongestKnown) return;
  if (known_.size() >= kKnownPieces) known_.clear();
  known_.emplace(piece, std::vector(tokens.begin() + static_cast<std::ptrdiff_t>(before), tokens.end()));
}

std::size_t BytePairTokenizer::encode_some(std::string_view text, bool is_last, std::vector<std::uint32_t>& tokens) {
  constexpr std::string_view kMark = BytePairVocabulary::kEndOfText;
  std::size_t done = 0;
  while (done < text.size()) {
    // Up to the next mark, text stands alone, as if it ended there. A mark may also have begun at the end.
    const std::size_t mark = text.find(kMark, done);
    const bool ends = mark != text.npos || is_last;
    const std::string_view part = text.substr(0, std::min(mark, text.size()));
    const std::size_t beyond = ends ? 0 : kPieceLookahead + kMark.size();
    while (done < part.size()) {
      const std::string_view piece = part.substr(done, gpt2_piece(part.substr(done)));
      if (done + piece.size() + beyond > part.size()) break;
      encode_piece(piece, tokens);
      done += piece.size();
    }
    if (mark == text.npos) break;
    tokens.push_back(vocabulary_.end_of_text());
    done += kMark.size();
  }
  return done;
}

void BytePairTokenizer::decode(std::uint32_t token, std::string& text) const {
  SHOAL_CHECK(token < vocabulary_.size(), DataError, "token {} is not in 0 … {}, the vocabulary of the tokenizer",
              token, vocabulary_.size() - 1);
  text += vocabulary_.text_of(token);
}

}  // namespace shoal::data
