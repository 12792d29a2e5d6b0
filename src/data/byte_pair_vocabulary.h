// The tokens of a byte-pair encoding of GPT-2's kind, and which two of them merge into which.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::data {

// Tokens 0 … 255 are the bytes in GPT-2's order (those that are printable in Latin-1 first), then one token a merge in
// the order of the merges, then <|endoftext|>.
class BytePairVocabulary {
 public:
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::string_view kEndOfText = "<|endoftext|>";

  // `merges`: the contents of a vocab.bpe or merges.txt: a line "#version…", then "LEFT RIGHT" a line, bytes written in
  // GPT-2's printable alphabet. DataError that begins with `name` and tells the line.
  BytePairVocabulary(std::string_view merges, const std::string& name);

  std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }
  std::uint32_t end_of_text() const { return size() - 1; }
  std::uint32_t token_of(unsigned char byte) const { return byte_tokens_[byte]; }
  const std::string& text_of(std::uint32_t token) const { return texts_[token]; }
  // As files of merges and of numbers write it, in GPT-2's printable alphabet.
  std::string written_form(std::uint32_t token) const;
  // What the two merge into, or kNone. The lower of two merged tokens is the one to make first.
  std::uint32_t merged(std::uint32_t left, std::uint32_t right) const;

 private:
  struct Merge {
    std::uint64_t pair;
    std::uint32_t token = kNone;
  };
  void add_merge(std::uint32_t left, std::uint32_t right);
  std::size_t slot_of(std::uint64_t pair) const;

  std::vector<std::uint32_t> byte_tokens_;
  std::vector<std::string> texts_;  // the bytes that a token stands for
  std::vector<Merge> merges_;       // a hash table, open addressing, at most half full
};

}  // namespace shoal::data
