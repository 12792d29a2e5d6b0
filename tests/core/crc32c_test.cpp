#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace shoal {
namespace {

std::uint32_t of(std::string_view text) { return crc32c(text.data(), text.size()); }

TEST(Crc32c, CheckValue) { EXPECT_EQ(of("123456789"), 0xE3069283u); }

// RFC 3720, appendix B.4.
TEST(Crc32c, VectorsOfTheRfc) {
  std::vector<unsigned char> bytes(32, 0x00);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x8A9136AAu);
  bytes.assign(32, 0xFF);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x62A8AB43u);
  std::iota(bytes.begin(), bytes.end(), 0);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x46DD794Eu);
  std::iota(bytes.rbegin(), bytes.rend(), 0);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x113FDB5Cu);
}

// Bit by bit, as RFC 3720 defines it.
std::uint32_t bit_by_bit(const unsigned char* data, std::size_t bytes, std::uint32_t previous) {
  std::uint32_t crc = ~previous;
  for (std::size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
  }
  return ~crc;
}

TEST(Crc32c, EveryLengthAtEveryPlace) {
  std::vector<unsigned char> bytes(1400);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * i * 31 + 7 * i + (i >> 3));
  for (std::size_t length = 0; length < 1100; length += length < 300 ? 1 : 7)
    for (const std::size_t place : {0, 1, 5, 64, 255})
      for (const std::uint32_t previous : {0u, 0xE3069283u})
        ASSERT_EQ(crc32c(bytes.data() + place, length, previous), bit_by_bit(bytes.data() + place, length, previous))
            << length << " bytes from " << place;
}

TEST(Crc32c, NothingChangesNothing) {
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
  EXPECT_EQ(crc32c(nullptr, 0, 0xE3069283u), 0xE3069283u);
}

TEST(Crc32c, PartsGoOnFromEachOther) {
  std::vector<unsigned char> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * i + 7 * i);
  const std::uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 37) {
    const std::uint32_t first = crc32c(bytes.data(), cut);
    EXPECT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, first), whole) << "cut at " << cut;
  }
}

TEST(Crc32c, SharesOfPartsMakeTheWhole) {
  std::vector<unsigned char> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * i + 7 * i);
  const std::uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (const std::size_t part : {1, 7, 64, 999, 5000}) {
    std::uint32_t sum = 0;
    for (std::size_t begin = 0; begin < bytes.size(); begin += part) {
      const std::size_t end = std::min(begin + part, bytes.size());
      sum ^= crc32c_share(crc32c(bytes.data() + begin, end - begin), bytes.size() - end);
    }
    EXPECT_EQ(sum, whole) << part;
  }
}

TEST(Crc32c, ShareOfManyBytesIsThatOfTheirPieces) {
  constexpr std::uint64_t kMany = 0x123456789ABCDEF;
  EXPECT_EQ(crc32c_share(0xE3069283u, kMany), crc32c_share(crc32c_share(0xE3069283u, kMany - 1000), 1000));
  EXPECT_EQ(crc32c_share(0xE3069283u, 0), 0xE3069283u);
}

TEST(Crc32c, EveryFlippedBitIsSeen) {
  std::string text = "a region of a shard file";
  const std::uint32_t sound = of(text);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(of(text), sound) << "bit " << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace shoal
