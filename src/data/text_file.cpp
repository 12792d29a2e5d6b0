#include "data/text_file.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/check.h"
#include "data/gzip_stream.h"
#include "data/utf8.h"

namespace shoal::data {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPartBytes = 1 << 20;  // read at once
constexpr std::size_t kLookedAt = 1 << 16;   // to tell text from other things

std::string beginning_of(const fs::path& path, std::size_t bytes) {
  GzipStream stream(path);
  std::string text(bytes, '\0');
  text.resize(stream.read(text.data(), bytes));
  return text;
}

// Of a text that goes on, the last character may be cut.
bool looks_like_text(std::string_view beginning, bool goes_on) {
  std::size_t at = 0;
  while (at < beginning.size()) {
    const std::size_t bytes = decode_utf8(beginning.substr(at)).bytes;
    if (bytes == 0 || beginning[at] == '\0') break;
    at += bytes;
  }
  return at == beginning.size() || (goes_on && beginning.size() - at < kLongestUtf8);
}

void refuse_utf16(std::string_view beginning, const fs::path& path) {
  SHOAL_CHECK(!beginning.starts_with("\xFF\xFE") && !beginning.starts_with("\xFE\xFF"), DataError,
              "{}: this text is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8", path.string());
}

template <typename T>
std::unique_ptr<TokenSource> read_tokens(const fs::path& path, Tokenizer& tokenizer, TokenType type) {
  auto tokens = std::make_shared<std::vector<T>>();
  tokenize_file(path, tokenizer, [&](std::span<const std::uint32_t> part) {
    std::ranges::transform(part, std::back_inserter(*tokens), [](std::uint32_t t) { return static_cast<T>(t); });
  });
  const TokenArray array{tokens->data(), static_cast<std::int64_t>(tokens->size()), type, tokens};
  return make_array_source(array, path.string());
}

}  // namespace

bool is_text_file(const fs::path& path) {
  const fs::path inner = path.extension() == ".gz" ? path.stem() : path;
  const std::string suffix = inner.extension().string();
  if (suffix == ".txt" || suffix == ".text" || suffix == ".md") return true;
  if (suffix == ".bin") return false;
  const std::string beginning = beginning_of(path, kLookedAt);
  return looks_like_text(beginning, beginning.size() == kLookedAt);
}

std::int64_t tokenize_file(const fs::path& path, Tokenizer& tokenizer, const TokenSink& sink) {
  GzipStream stream(path);
  std::string text;
  std::vector<std::uint32_t> tokens;
  std::int64_t total = 0;
  for (bool is_last = false; !is_last;) {
    const std::size_t left = text.size();
    const std::size_t wanted = std::max(kPartBytes, left);  // so that a piece without end is not searched each MiB
    text.resize(left + wanted);
    const std::size_t got = stream.read(text.data() + left, wanted);
    text.resize(left + got);
    is_last = got < wanted;
    if (total == 0) refuse_utf16(text, path);
    total += static_cast<std::int64_t>(got);
    tokens.clear();
    text.erase(0, tokenizer.encode_some(text, is_last, tokens));
    sink(tokens);
  }
  return total;
}

std::unique_ptr<TokenSource> open_text_file(const fs::path& path, const std::string& tokenizer_name) {
  const auto tokenizer = make_tokenizer(tokenizer_name);
  if (tokenizer->vocab_size() <= 1 << 16) return read_tokens<std::uint16_t>(path, *tokenizer, TokenType::uint16);
  return read_tokens<std::uint32_t>(path, *tokenizer, TokenType::uint32);
}

}  // namespace shoal::data
