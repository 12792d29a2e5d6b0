#include "data/byte_pair_vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "core/check.h"
#include "core/hash.h"

namespace shoal::data {
namespace {

// GPT-2 writes a byte that Latin-1 can print as that character, and the others as the characters from U+0100 on.
bool is_printable(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The bytes in the order of their tokens.
std::string bytes_in_order() {
  std::string bytes;
  for (const bool printable : {true, false})
    for (unsigned byte = 0; byte < 256; ++byte)
      if (is_printable(byte) == printable) bytes.push_back(static_cast<char>(byte));
  return bytes;
}

// The printable forms of all bytes: UTF-8 of one or two bytes.
std::array<std::string, 256> make_forms() {
  std::array<std::string, 256> forms;
  unsigned next_other = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned point = is_printable(byte) ? byte : next_other++;
    if (point < 0x80) {
      forms[byte] = static_cast<char>(point);
    } else {
      forms[byte] = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
    }
  }
  return forms;
}

const std::string& form_of(char byte) {
  static const std::array<std::string, 256> forms = make_forms();
  return forms[static_cast<unsigned char>(byte)];
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Tokens by the form in which a file of merges writes them.
class WrittenTokens {
 public:
  void add(std::string form, std::uint32_t token) { tokens_.emplace(std::move(form), token); }
  std::uint32_t find(std::string_view form, const std::string& name, std::size_t line) const {
    const auto found = tokens_.find(std::string(form));
    SHOAL_CHECK(found != tokens_.end(), DataError, "{}: line {}: '{}' is neither a byte nor made by a merge above",
                name, line, form);
    return found->second;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> tokens_;
};

}  // namespace

BytePairVocabulary::BytePairVocabulary(std::string_view merges, const std::string& name) : byte_tokens_(256) {
  WrittenTokens written;
  for (const char byte : bytes_in_order()) {
    written.add(form_of(byte), size());
    byte_tokens_[static_cast<unsigned char>(byte)] = size();
    texts_.emplace_back(1, byte);
  }
  const auto lines = lines_of(merges);
  merges_.resize(std::bit_ceil(2 * lines.size() + 1));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.empty() || (i == 0 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    SHOAL_CHECK(space != line.npos && line.find(' ', space + 1) == line.npos, DataError,
                "{}: line {} is not of the form 'LEFT RIGHT': '{}'", name, i + 1, line);
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    const std::uint32_t left_token = written.find(left, name, i + 1), right_token = written.find(right, name, i + 1);
    written.add(std::string(left).append(right), size());
    add_merge(left_token, right_token);
  }
  SHOAL_CHECK(size() > 256, DataError, "{}: there are no merges in it", name);
  texts_.emplace_back(kEndOfText);
}

void BytePairVocabulary::add_merge(std::uint32_t left, std::uint32_t right) {
  const std::uint64_t pair = std::uint64_t{left} << 32 | right;
  Merge& merge = merges_[slot_of(pair)];
  if (merge.token == kNone) merge = {pair, size()};
  texts_.push_back(texts_[left] + texts_[right]);
}

std::string BytePairVocabulary::written_form(std::uint32_t token) const {
  if (token == end_of_text()) return texts_[token];
  std::string form;
  for (const char byte : texts_[token]) form += form_of(byte);
  return form;
}

std::size_t BytePairVocabulary::slot_of(std::uint64_t pair) const {
  const std::size_t mask = merges_.size() - 1;
  std::size_t slot = mix64(pair) & mask;
  while (merges_[slot].token != kNone && merges_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

std::uint32_t BytePairVocabulary::merged(std::uint32_t left, std::uint32_t right) const {
  return merges_[slot_of(std::uint64_t{left} << 32 | right)].token;
}

}  // namespace shoal::data
