#include "data/gpt2_pieces.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "data/unicode_ranges.h"
#include "data/utf8.h"

namespace shoal::data {
namespace {

enum class Class : std::uint8_t { other, letter, number, space };

void mark(std::vector<Class>& classes, std::span<const std::uint32_t> runs, Class kind) {
  std::uint32_t point = 0;
  for (std::size_t i = 0; i < runs.size(); i += 2) {
    point += runs[i];
    std::fill_n(classes.begin() + point, runs[i + 1], kind);
    point += runs[i + 1];
  }
}

// One byte a code point: 1.1 MB, of which a text touches little.
std::vector<Class> make_classes() {
  std::vector<Class> classes(kCodePoints, Class::other);
  mark(classes, letter_runs(), Class::letter);
  mark(classes, number_runs(), Class::number);
  // The property White_Space, which \s means in Unicode expressions.
  for (std::uint32_t point = 0x09; point <= 0x0D; ++point) classes[point] = Class::space;
  for (std::uint32_t point = 0x2000; point <= 0x200A; ++point) classes[point] = Class::space;
  for (const std::uint32_t point : {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000})
    classes[point] = Class::space;
  return classes;
}

struct Character {
  Class kind;
  std::size_t bytes;
};

Character first_character(std::string_view text) {
  static const std::vector<Class> classes = make_classes();
  const CodePoint point = decode_utf8(text);
  return point.bytes == 0 ? Character{Class::other, 1} : Character{classes[point.value], point.bytes};
}

std::size_t contraction(std::string_view text) {
  if (text[0] != '\'') return 0;
  for (const std::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(suffix)) return suffix.size();
  return 0;
}

// Where the run of characters of one class that goes on at `begin` ends; `last` gets the length of its last character.
std::size_t end_of_run(std::string_view text, std::size_t begin, Class kind, std::size_t& last) {
  while (begin < text.size()) {
    const Character next = first_character(text.substr(begin));
    if (next.kind != kind) break;
    last = next.bytes;
    begin += next.bytes;
  }
  return begin;
}

// \s+(?!\S)|\s+: all of the run where the text ends with it, else all but its last character, else that.
std::size_t spaces(std::string_view text, Character first) {
  std::size_t last = first.bytes;
  const std::size_t end = end_of_run(text, first.bytes, Class::space, last);
  return end == text.size() || end == last ? end : end - last;
}

}  // namespace

std::size_t gpt2_piece(std::string_view text) {
  if (const std::size_t bytes = contraction(text); bytes > 0) return bytes;
  const Character first = first_character(text);
  std::size_t begin = first.bytes;
  Class kind = first.kind;
  if (text[0] == ' ' && text.size() > 1) {
    const Character second = first_character(text.substr(1));
    begin += second.bytes;
    kind = second.kind;
  }
  std::size_t ignored = 0;
  return kind == Class::space ? spaces(text, first) : end_of_run(text, begin, kind, ignored);
}

}  // namespace shoal::data
