// llm.c's token files: a header of 256 little-endian int32 (magic, version, number of tokens, then zeros), the tokens.
#pragma once

#include <cstdint>

namespace shoal::data::llmc {

inline constexpr std::int64_t kHeaderBytes = 256 * 4;
inline constexpr std::int32_t kMagic = 20240520;        // of GPT-2's tokens
inline constexpr std::int32_t kMagicLlama3 = 20240801;  // of Llama 3's
inline constexpr std::int32_t kVersion16 = 1;           // tokens are uint16
inline constexpr std::int32_t kVersion32 = 7;           // tokens are uint32

}  // namespace shoal::data::llmc
