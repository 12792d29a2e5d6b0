// Megatron-LM's indexed datasets: X.bin holds the tokens of all sequences one behind the other, X.idx tells where each
// begins, and which sequences make a document. Little-endian:
//   "MMIDIDX\0\0" · uint64 version (1) · uint8 code of the tokens' type · uint64 sequences S · uint64 document marks D
//   · int32 length of each sequence, in tokens [S] · int64 offset of each sequence in X.bin, in bytes [S]
//   · int64 first sequence of each document, and S at the end [D] (· int8 mode of each sequence [S], of multimodal
//   data)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "data/token_source.h"

namespace shoal::data {

struct MegatronPair {
  std::filesystem::path tokens, index;
};

// Where `path` is X, X.bin or X.idx of such a pair. Nothing where there is no index that begins as one does.
std::optional<MegatronPair> find_megatron_pair(const std::filesystem::path& path);

// Reads the index and checks it to the last byte, in one pass: the type of the tokens must be an integer of 8, 16, 32
// or 64 bits, and the sequences must fill the file of tokens, which has `token_bytes` bytes, one behind the other.
// Returns the type. DataError that names the file and what is wrong.
TokenType read_megatron_index(const std::filesystem::path& index, std::int64_t token_bytes);

// The bytes of an index for tokens of `type` (uint16 or int32) in documents of these lengths, in tokens, one sequence a
// document; of those longer than a sequence can be, several.
std::string megatron_index(TokenType type, std::span<const std::int64_t> document_lengths);

}  // namespace shoal::data
