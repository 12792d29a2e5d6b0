#include "data/megatron_index.h"

#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "data/mapped_file.h"

namespace shoal::data {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

bool is_index(const fs::path& path) {
  std::array<char, kMagic.size()> start;
  std::ifstream file(path, std::ios::binary);
  return file.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == kMagic;
}

// The parts of the file lie at any address.
template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

TokenType type_of(std::uint8_t code, const std::string& name) {
  switch (code) {
    case 1: return TokenType::uint8;
    case 4: return TokenType::int32;
    case 5: return TokenType::int64;
    case 8: return TokenType::uint16;
    default:
      throw DataError("{}: tokens of type code {}; 1 (uint8), 4 (int32), 5 (int64) and 8 (uint16) are known", name,
                      code);
  }
}

struct Header {
  TokenType type;
  std::uint64_t sequences, marks;
};

Header read_header(const MappedFile& file) {
  const std::string name = file.path().string();
  const std::byte* at = file.bytes().data() + kMagic.size();
  SHOAL_CHECK(file.size() >= kHeaderBytes, DataError, "{}: the file ends within Megatron's header", name);
  const auto version = load<std::uint64_t>(at);
  SHOAL_CHECK(version == 1, DataError, "{}: Megatron index of version {}; 1 is known", name, version);
  const Header header{type_of(load<std::uint8_t>(at + 8), name), load<std::uint64_t>(at + 9),
                      load<std::uint64_t>(at + 17)};
  const auto left = static_cast<std::uint64_t>(file.size() - kHeaderBytes);
  const bool is_sane = header.sequences <= left && header.marks <= left;  // so that the sum does not overflow
  const std::uint64_t needed = is_sane ? header.sequences * 12 + header.marks * 8 : 0;
  SHOAL_CHECK(is_sane && (needed == left || needed + header.sequences == left), DataError,
              "{}: {} sequences and {} document marks do not fit its length of {} bytes: it is damaged", name,
              header.sequences, header.marks, file.size());
  return header;
}

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

std::optional<MegatronPair> find_megatron_pair(const fs::path& path) {
  const bool is_one_of_two = path.extension() == ".bin" || path.extension() == ".idx";
  const std::string prefix = is_one_of_two ? fs::path(path).replace_extension().string() : path.string();
  MegatronPair pair{prefix + ".bin", prefix + ".idx"};
  if (is_index(pair.index)) return pair;
  SHOAL_CHECK(path.extension() != ".idx", DataError, "{}: this is no index of Megatron's", path.string());
  return std::nullopt;
}

TokenType read_megatron_index(const fs::path& index, std::int64_t token_bytes) {
  const MappedFile file(index);
  const Header header = read_header(file);
  const std::byte* lengths = file.bytes().data() + kHeaderBytes;
  const std::byte* offsets = lengths + header.sequences * 4;
  std::int64_t expected = 0;
  for (std::uint64_t i = 0; i < header.sequences; ++i) {
    const auto length = load<std::int32_t>(lengths + i * 4);
    const auto offset = load<std::int64_t>(offsets + i * 8);
    SHOAL_CHECK(length >= 0 && offset == expected, DataError,
                "{}: sequence {} has {} tokens from byte {} on, where byte {} comes next: it is damaged",
                index.string(), i, length, offset, expected);
    expected += length * bytes_of(header.type);
  }
  SHOAL_CHECK(
      expected == token_bytes, DataError,
      "{}: its sequences take {} bytes, but the file of tokens beside it has {}: one of the two is truncated or "
      "from another pair",
      index.string(), expected, token_bytes);
  return header.type;
}

std::string megatron_index(TokenType type, std::span<const std::int64_t> document_lengths) {
  constexpr std::int64_t kLongest = std::numeric_limits<std::int32_t>::max();
  SHOAL_ASSERT(type == TokenType::uint16 || type == TokenType::int32);
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> marks{0};
  for (std::int64_t left : document_lengths) {
    for (; left > kLongest; left -= kLongest) lengths.push_back(static_cast<std::int32_t>(kLongest));
    lengths.push_back(static_cast<std::int32_t>(left));
    marks.push_back(std::ssize(lengths));
  }
  std::string bytes(kMagic);
  append(bytes, std::uint64_t{1});
  append(bytes, static_cast<std::uint8_t>(type == TokenType::uint16 ? 8 : 4));
  append(bytes, std::uint64_t{lengths.size()});
  append(bytes, std::uint64_t{marks.size()});
  for (const std::int32_t length : lengths) append(bytes, length);
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths) append(bytes, std::exchange(offset, offset + length * bytes_of(type)));
  for (const std::int64_t mark : marks) append(bytes, mark);
  return bytes;
}

}  // namespace shoal::data
