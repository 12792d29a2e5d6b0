#include "data/token_source.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/crc32c.h"

namespace shoal::data {
namespace {

template <typename T>
class ArraySource final : public TokenSource {
 public:
  ArraySource(TokenArray array, std::string name)
      : owner_(std::move(array.owner)),
        tokens_(static_cast<const T*>(array.tokens), static_cast<std::size_t>(array.count)),
        name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }

  void read(std::int64_t begin, std::span<std::int64_t> into) const override {
    std::ranges::copy(part(begin, into.size()), into.begin());
  }

  std::uint64_t largest(std::int64_t begin, std::int64_t count) const override {
    std::make_unsigned_t<T> largest = 0;
    for (const T token : part(begin, static_cast<std::size_t>(count)))
      largest = std::max(largest, static_cast<std::make_unsigned_t<T>>(token));
    const bool negative = std::is_signed_v<T> && static_cast<T>(largest) < 0;
    return negative ? std::numeric_limits<std::uint64_t>::max() : largest;
  }

 private:
  std::span<const T> part(std::int64_t begin, std::size_t count) const {
    SHOAL_ASSERT(begin >= 0 && static_cast<std::size_t>(begin) + count <= tokens_.size());
    return tokens_.subspan(static_cast<std::size_t>(begin), count);
  }

  std::shared_ptr<const void> owner_;
  std::span<const T> tokens_;
  std::string name_;
};

// Calls visit(begin, count) for blocks of `block` tokens from the first to the last of `size`: all of them where
// `blocks` blocks hold `size` tokens, else so many, spread evenly.
template <typename Visit>
void for_blocks(std::int64_t size, std::int64_t block, std::int64_t blocks, const Visit& visit) {
  if (size <= block * blocks) {
    for (std::int64_t begin = 0; begin < size; begin += block) visit(begin, std::min(block, size - begin));
    return;
  }
  const double stride = static_cast<double>(size - block) / static_cast<double>(blocks - 1);
  for (std::int64_t i = 0; i < blocks; ++i)
    visit(i + 1 < blocks ? static_cast<std::int64_t>(stride * static_cast<double>(i)) : size - block, block);
}

std::uint64_t limit_of(std::int64_t vocab_size) {
  return static_cast<std::uint64_t>(vocab_size > 0 ? vocab_size : std::numeric_limits<std::int64_t>::max());
}

constexpr std::int64_t kCheckBlock = 1 << 16;  // tokens: what stays in the cache while a bad one is looked for

}  // namespace

std::int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::uint8: return 1;
    case TokenType::uint16: return 2;
    case TokenType::uint32:
    case TokenType::int32: return 4;
    case TokenType::int64: return 8;
  }
  throw InternalError("there is no token type {}", static_cast<int>(type));
}

const char* name_of(TokenType type) {
  constexpr const char* kNames[] = {"uint8", "uint16", "uint32", "int32", "int64"};
  return kNames[static_cast<int>(type)];
}

std::unique_ptr<TokenSource> make_array_source(TokenArray array, std::string name) {
  switch (array.type) {
    case TokenType::uint8: return std::make_unique<ArraySource<std::uint8_t>>(std::move(array), std::move(name));
    case TokenType::uint16: return std::make_unique<ArraySource<std::uint16_t>>(std::move(array), std::move(name));
    case TokenType::uint32: return std::make_unique<ArraySource<std::uint32_t>>(std::move(array), std::move(name));
    case TokenType::int32: return std::make_unique<ArraySource<std::int32_t>>(std::move(array), std::move(name));
    case TokenType::int64: return std::make_unique<ArraySource<std::int64_t>>(std::move(array), std::move(name));
  }
  throw InternalError("there is no token type {}", static_cast<int>(array.type));
}

void check_tokens_read(const TokenSource& source, std::int64_t begin, std::span<const std::int64_t> tokens,
                       std::int64_t vocab_size) {
  const std::uint64_t limit = limit_of(vocab_size);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    SHOAL_CHECK(static_cast<std::uint64_t>(tokens[i]) < limit, DataError,
                "{}: token {} is {}, which is not in 0 … {}: check --data and --token-type, or give --vocab-size",
                source.name(), begin + static_cast<std::int64_t>(i), tokens[i], limit - 1);
  }
}

void check_tokens(const TokenSource& source, std::int64_t vocab_size) {
  constexpr std::int64_t kBlocks = kMostChecked / kCheckBlock;
  std::vector<std::int64_t> tokens;
  for_blocks(source.size(), kCheckBlock, kBlocks, [&](std::int64_t begin, std::int64_t count) {
    if (source.largest(begin, count) < limit_of(vocab_size)) return;
    tokens.resize(static_cast<std::size_t>(count));
    source.read(begin, tokens);
    check_tokens_read(source, begin, tokens, vocab_size);
  });
}

std::uint32_t fingerprint_of(const TokenSource& source) {
  constexpr std::int64_t kBlock = 8192, kBlocks = 64;
  const std::int64_t size = source.size();
  std::uint32_t crc = crc32c(&size, sizeof(size));
  std::vector<std::int64_t> tokens;
  for_blocks(size, kBlock, kBlocks, [&](std::int64_t begin, std::int64_t count) {
    tokens.resize(static_cast<std::size_t>(count));
    source.read(begin, tokens);
    crc = crc32c(tokens.data(), tokens.size() * sizeof(tokens[0]), crc);
  });
  return crc;
}

}  // namespace shoal::data
