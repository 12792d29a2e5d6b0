#include "data/byte_pair_merging.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace shoal::data {
namespace {

constexpr std::int64_t kEnd = -1;

}  // namespace

bool BytePairMerging::Candidate::operator>(const Candidate& other) const {
  return std::tie(merged, left) > std::tie(other.merged, other.left);
}

void BytePairMerging::run(const BytePairVocabulary& vocabulary, std::string_view piece,
                          std::vector<std::uint32_t>& tokens) {
  link(vocabulary, piece);
  for (Candidate candidate; take_candidate(candidate);)
    if (still_stands(candidate)) apply(vocabulary, candidate);
  for (std::int64_t node = piece.empty() ? kEnd : 0; node != kEnd; node = at(node).next)
    tokens.push_back(at(node).token);
}

void BytePairMerging::link(const BytePairVocabulary& vocabulary, std::string_view piece) {
  const auto size = static_cast<std::int64_t>(piece.size());
  nodes_.resize(piece.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint32_t token = vocabulary.token_of(static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]));
    at(i) = {token, i - 1, i + 1 < size ? i + 1 : kEnd};
  }
  for (std::int64_t i = 0; i + 1 < size; ++i) offer(vocabulary, i);
}

void BytePairMerging::offer(const BytePairVocabulary& vocabulary, std::int64_t left) {
  if (left == kEnd || at(left).next == kEnd) return;
  const std::uint32_t a = at(left).token, b = at(at(left).next).token;
  const std::uint32_t merged = vocabulary.merged(a, b);
  if (merged == BytePairVocabulary::kNone) return;
  candidates_.push_back({merged, left, a, b});
  std::ranges::push_heap(candidates_, std::greater<>());
}

bool BytePairMerging::take_candidate(Candidate& candidate) {
  if (candidates_.empty()) return false;
  std::ranges::pop_heap(candidates_, std::greater<>());
  candidate = candidates_.back();
  candidates_.pop_back();
  return true;
}

// Merges on either side may have changed what the offer was made for.
bool BytePairMerging::still_stands(const Candidate& candidate) {
  const Node& left = at(candidate.left);
  return left.token == candidate.left_token && left.next != kEnd && at(left.next).token == candidate.right_token;
}

void BytePairMerging::apply(const BytePairVocabulary& vocabulary, const Candidate& candidate) {
  Node& left = at(candidate.left);
  Node& right = at(left.next);
  left.token = candidate.merged;
  left.next = right.next;
  right.token = BytePairVocabulary::kNone;
  if (left.next != kEnd) at(left.next).previous = candidate.left;
  offer(vocabulary, left.previous);
  offer(vocabulary, candidate.left);
}

}  // namespace shoal::data
