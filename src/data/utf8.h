// UTF-8 as RFC 3629 defines it: shortest forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shoal::data {

inline constexpr std::uint32_t kCodePoints = 0x110000;
inline constexpr std::size_t kLongestUtf8 = 4;  // bytes

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: the text does not begin with a well-formed character
};

// Of the character that `text` begins with; `text` is not empty.
CodePoint decode_utf8(std::string_view text);

}  // namespace shoal::data
