// From text to token ids and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::data {

// Text is any sequence of bytes: decode(encode(text)) == text for all of them. An object serves one thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab_size() const = 0;
  // The token that stands between documents.
  virtual std::optional<std::uint32_t> end_of_text() const = 0;
  // Appends the tokens of the beginning of `text` and returns the bytes of it that they stand for: all where `is_last`,
  // else as many as have the same tokens whatever follows. So text that comes in parts has the tokens of the whole, if
  // what is left over is put in front of the next part.
  virtual std::size_t encode_some(std::string_view text, bool is_last, std::vector<std::uint32_t>& tokens) = 0;
  // Appends the bytes of one token; DataError where there is no such token.
  virtual void decode(std::uint32_t token, std::string& text) const = 0;
};

// "gpt2": the built-in byte-pair encoding, 50257 tokens. "bytes": each byte is a token, 256. Else a folder with the
// file vocab.bpe or merges.txt of an encoding of GPT-2's kind. OptionError where there is none, DataError where it is
// damaged.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

std::vector<std::uint32_t> encode(Tokenizer& tokenizer, std::string_view text);
std::string decode(const Tokenizer& tokenizer, std::span<const std::uint32_t> tokens);

}  // namespace shoal::data
