#include "data/byte_pair_tokenizer.h"

#include <functional>
#include <queue>
#include <tuple>

#include "core/check.h"
#include "data/gpt2_pieces.h"

namespace shoal::data {
namespace {

constexpr std::size_t kKnownPieces = 1 << 18;  // some 20 MB; forgotten all at once when they are more
constexpr std::size_t kLongestKnown = 64;      // bytes: longer ones do not come twice

// The tokens of a piece as a doubly linked list, and the merges that its neighbours allow, lowest first and then from
// left to right. n bytes take n log n time, however the piece looks.
class Merging {
 public:
  Merging(const BytePairVocabulary& vocabulary, std::string_view piece)
      : vocabulary_(vocabulary), nodes_(piece.size()) {
    const auto size = static_cast<std::int64_t>(piece.size());
    for (std::int64_t i = 0; i < size; ++i)
      at(i) = {vocabulary.token_of(static_cast<unsigned char>(piece[static_cast<std::size_t>(i)])), i - 1,
               i + 1 < size ? i + 1 : kEnd};
    for (std::int64_t i = 0; i + 1 < size; ++i) offer(i);
  }

  void run() {
    while (!candidates_.empty()) {
      const Candidate candidate = candidates_.top();
      candidates_.pop();
      if (still_stands(candidate)) apply(candidate);
    }
  }

  void append_to(std::vector<std::uint32_t>& tokens) const {
    for (std::int64_t i = 0; i != kEnd; i = nodes_[static_cast<std::size_t>(i)].next)
      tokens.push_back(nodes_[static_cast<std::size_t>(i)].token);
  }

 private:
  static constexpr std::int64_t kEnd = -1;

  struct Node {
    std::uint32_t token;  // kNone: swallowed by a merge
    std::int64_t previous, next;
  };
  struct Candidate {
    std::uint32_t merged;
    std::int64_t left;
    std::uint32_t left_token, right_token;  // those at the time of the offer
    bool operator>(const Candidate& other) const { return std::tie(merged, left) > std::tie(other.merged, other.left); }
  };

  Node& at(std::int64_t i) { return nodes_[static_cast<std::size_t>(i)]; }

  void offer(std::int64_t left) {
    if (left == kEnd || at(left).next == kEnd) return;
    const std::uint32_t a = at(left).token, b = at(at(left).next).token;
    const std::uint32_t merged = vocabulary_.merged(a, b);
    if (merged != BytePairVocabulary::kNone) candidates_.push({merged, left, a, b});
  }

  bool still_stands(const Candidate& candidate) {
    const Node& left = at(candidate.left);
    return left.token == candidate.left_token && left.next != kEnd && at(left.next).token == candidate.right_token;
  }

  void apply(const Candidate& candidate) {
    Node& left = at(candidate.left);
    Node& right = at(left.next);
    left.token = candidate.merged;
    left.next = right.next;
    right.token = BytePairVocabulary::kNone;
    if (left.next != kEnd) at(left.next).previous = candidate.left;
    offer(left.previous);
    offer(candidate.left);
  }

  const BytePairVocabulary& vocabulary_;
  std::vector<Node> nodes_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace

void BytePairTokenizer::encode_piece(std::string_view piece, std::vector<std::uint32_t>& tokens) {
  const auto known = known_.find(piece);
  if (known != known_.end()) {
    tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    return;
  }
  const std::size_t before = tokens.size();
  Merging merging(vocabulary_, piece);
  merging.run();
  merging.append_to(tokens);
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
