// A long row of token ids, wherever it lies: in a mapped file, in memory, in an HDF5 dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace shoal::data {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual const std::string& name() const = 0;  // of the file, for messages
  virtual std::int64_t size() const = 0;        // tokens
  // Tokens begin … begin + into.size() - 1, which must exist. Safe to call from several threads.
  virtual void read(std::int64_t begin, std::span<std::int64_t> into) const = 0;
  // The largest of the `count` >= 1 tokens from `begin` on; a negative one counts as larger than all others.
  virtual std::uint64_t largest(std::int64_t begin, std::int64_t count) const = 0;
};

enum class TokenType { uint8, uint16, uint32, int32, int64 };
std::int64_t bytes_of(TokenType type);
const char* name_of(TokenType type);

// Tokens that lie one behind the other in memory, little-endian; `owner` keeps the memory alive. `tokens` is aligned
// as its type asks for.
struct TokenArray {
  const void* tokens = nullptr;
  std::int64_t count = 0;
  TokenType type = TokenType::uint16;
  std::shared_ptr<const void> owner;
};
std::unique_ptr<TokenSource> make_array_source(TokenArray array, std::string name);

// Throws DataError for the first token at or above `vocab_size`, with its place. Looks at all tokens of a source up to
// kMostChecked; of a larger one at as many, in blocks spread evenly from its beginning to its end. Costs what reading
// costs: some GB/s from memory, the speed of the disk otherwise.
inline constexpr std::int64_t kMostChecked = std::int64_t{1} << 31;
void check_tokens(const TokenSource& source, std::int64_t vocab_size);

// The same for `tokens`, which were read from `begin` on. vocab_size 0, here and above: not known, only negative ids
// are errors.
void check_tokens_read(const TokenSource& source, std::int64_t begin, std::span<const std::int64_t> tokens,
                       std::int64_t vocab_size);

// Of the number of tokens and of 64 blocks of 8192 tokens spread evenly over them, the first and the last included (all
// tokens where they are fewer): cheap for terabytes. It depends on the tokens alone, not on the file's format or name;
// what it cannot see is a change of some tokens between the blocks.
std::uint32_t fingerprint_of(const TokenSource& source);

}  // namespace shoal::data
