#include "formats/zip_layout.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "core/error.h"

namespace shoal::formats {
namespace {

std::uint64_t number_at(const std::string& bytes, std::size_t offset, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, width);
  return value;
}

TEST(ZipLayout, DataAreAlignedAndApart) {
  ZipLayout zip(64);
  std::uint64_t end = 0;
  for (const std::uint64_t bytes : {0ull, 1ull, 63ull, 64ull, 65ull, 1000ull}) {
    const std::size_t entry = zip.add(fmt::format("archive/data/{}", bytes), bytes);
    EXPECT_EQ(zip.data_offset(entry) % 64, 0u);
    EXPECT_GE(zip.data_offset(entry), end + 30);
    end = zip.data_offset(entry) + bytes;
  }
}

TEST(ZipLayout, ChecksumsOfPiecesInAnyOrderAreCombined) {
  const std::string data = "The quick brown fox jumps over the lazy dog";
  ZipLayout zip;
  const std::size_t entry = zip.add("x", data.size());
  zip.note_piece(entry, 20, data.data() + 20, data.size() - 20);
  zip.note_piece(entry, 0, data.data(), 4);
  zip.note_piece(entry, 4, data.data() + 4, 16);
  const auto records = zip.records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(number_at(records[0].second, 14, 4), 0x414FA339u);  // its published CRC-32
  EXPECT_EQ(number_at(records[1].second, 16, 4), 0x414FA339u);
}

TEST(ZipLayout, PiecesMustCoverTheEntry) {
  ZipLayout zip;
  const std::size_t entry = zip.add("x", 4);
  EXPECT_THROW(zip.records(), InternalError);
  zip.note_piece(entry, 0, "ab", 2);
  EXPECT_THROW(zip.records(), InternalError);
  EXPECT_THROW(zip.note_piece(entry, 0, "ab", 2), InternalError);
  zip.note_piece(entry, 3, "d", 1);
  EXPECT_THROW(zip.records(), InternalError);
}

TEST(ZipLayout, TotalIsTheEndOfTheLastRecord) {
  ZipLayout zip;
  for (int i = 0; i < 3; ++i) zip.note_piece(zip.add(fmt::format("x{}", i), 5), 0, "12345", 5);
  const auto records = zip.records();
  EXPECT_EQ(records.back().first + records.back().second.size(), zip.total_bytes());
  // No ZIP64 records where they are not needed: the archive ends with one plain end record.
  EXPECT_EQ(number_at(records.back().second, records.back().second.size() - 22, 4), 0x06054B50u);
  EXPECT_EQ(records.back().second.find("PK\x06\x06"), std::string::npos);
}

TEST(ZipLayout, ManyEntriesAreCountedInZip64) {
  ZipLayout zip(1);
  for (int i = 0; i < 70'000; ++i) zip.add(std::to_string(i), 0);
  const auto records = zip.records();
  const std::string& end = records.back().second;
  const std::size_t zip64 = end.size() - 22 - 20 - 56;
  EXPECT_EQ(number_at(end, zip64, 4), 0x06064B50u);
  EXPECT_EQ(number_at(end, zip64 + 32, 8), 70'000u);
  EXPECT_EQ(number_at(end, end.size() - 22 + 10, 2), 0xFFFFu);
  EXPECT_EQ(records.back().first + end.size(), zip.total_bytes());
}

}  // namespace
}  // namespace shoal::formats
