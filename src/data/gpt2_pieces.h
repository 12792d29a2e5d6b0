// Cutting text into the pieces within which byte-pair encoding merges, as GPT-2 does (Radford et al. 2019) by the
// regular expression
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#pragma once

#include <cstddef>
#include <string_view>

namespace shoal::data {

// Bytes of the piece that `text` begins with; `text` is not empty. A byte that is no part of valid UTF-8 counts as a
// character that is no letter, number or space, so that no text is lost or refused.
std::size_t gpt2_piece(std::string_view text);

// A piece is known for certain where so many bytes of text follow it: the length of a space and a character more.
inline constexpr std::size_t kPieceLookahead = 8;

}  // namespace shoal::data
