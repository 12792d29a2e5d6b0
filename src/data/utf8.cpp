#include "data/utf8.h"

#include <array>

namespace shoal::data {

CodePoint decode_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  if (byte(0) < 0x80) return {byte(0), 1};
  const std::size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < bytes) return {};
  std::uint32_t point = byte(0) & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    point = point << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<std::uint32_t, kLongestUtf8 + 1> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = point >= 0xD800 && point <= 0xDFFF;
  if (point < kLeast[bytes] || point >= kCodePoints || is_surrogate) return {};
  return {point, bytes};
}

}  // namespace shoal::data
