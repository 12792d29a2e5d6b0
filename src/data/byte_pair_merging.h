// Merging the bytes of one piece of text into tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/byte_pair_vocabulary.h"

namespace shoal::data {

// The tokens of a piece are a doubly linked list; the merges that neighbours allow wait in a heap, the lowest first and
// among equals the leftmost. n bytes take n log n time, however the piece looks. The object keeps its memory from piece
// to piece.
class BytePairMerging {
 public:
  // Appends the tokens of `piece` to `tokens`.
  void run(const BytePairVocabulary& vocabulary, std::string_view piece, std::vector<std::uint32_t>& tokens);

 private:
  struct Node {
    std::uint32_t token;  // kNone: swallowed by a merge
    std::int64_t previous, next;
  };
  struct Candidate {
    std::uint32_t merged;
    std::int64_t left;
    std::uint32_t left_token, right_token;  // those at the time of the offer
    bool operator>(const Candidate& other) const;
  };

  Node& at(std::int64_t node) { return nodes_[static_cast<std::size_t>(node)]; }
  void link(const BytePairVocabulary& vocabulary, std::string_view piece);
  void offer(const BytePairVocabulary& vocabulary, std::int64_t left);
  bool take_candidate(Candidate& candidate);  // false: there is none
  bool still_stands(const Candidate& candidate);
  void apply(const BytePairVocabulary& vocabulary, const Candidate& candidate);

  std::vector<Node> nodes_;
  std::vector<Candidate> candidates_;  // a heap
};

}  // namespace shoal::data
