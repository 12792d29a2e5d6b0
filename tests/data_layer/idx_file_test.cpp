#include "data/idx_file.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "data_layer/temporary_folder.h"

namespace shoal::data {
namespace {

constexpr std::uint32_t kMagic2 = 0x00000802;  // unsigned bytes, two dimensions

void expect_data_error(const std::filesystem::path& path, const std::string& part) {
  try {
    read_idx(path, 2);
    ADD_FAILURE() << "read without an error, expected: " << part;
  } catch (const DataError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(path.string()), std::string::npos) << "does not name the file: " << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(error.exit_code(), ExitCode::data);
  }
}

TEST(IdxFile, ReadsPlainAndCompressed) {
  const TemporaryFolder folder;
  const std::string bytes = idx_bytes(kMagic2, {2, 3}, "abcdef");
  for (const auto& path : {folder.write("plain", bytes), folder.write("gz", gzip(bytes))}) {
    const IdxArray array = read_idx(path, 2);
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(std::string(array.bytes.begin(), array.bytes.end()), "abcdef");
  }
}

TEST(IdxFile, ReadsAnEmptyArray) {
  const TemporaryFolder folder;
  EXPECT_TRUE(read_idx(folder.write("empty", idx_bytes(kMagic2, {0, 3}, "")), 2).bytes.empty());
}

TEST(IdxFile, EveryTruncationIsNamed) {
  const TemporaryFolder folder;
  const std::string bytes = idx_bytes(kMagic2, {2, 3}, "abcdef");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    const auto path = folder.write("cut", bytes.substr(0, length));
    expect_data_error(path, length < 12 ? "ends within the idx header" : "promises 6 bytes");
  }
}

TEST(IdxFile, EveryTruncationOfACompressedFileIsNamed) {
  const TemporaryFolder folder;
  const std::string bytes = gzip(idx_bytes(kMagic2, {20, 30}, std::string(600, 'x')));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    EXPECT_THROW(read_idx(folder.write("cut.gz", bytes.substr(0, length)), 2), DataError);
  }
}

// Some bits of a gzip file say nothing about its contents (the time, the bits between the last block and the checksum).
TEST(IdxFile, AFlippedByteOfACompressedFileNeverChangesWhatIsRead) {
  const TemporaryFolder folder;
  const std::string bytes = gzip(idx_bytes(kMagic2, {20, 30}, std::string(600, 'x')));
  int found = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    SCOPED_TRACE(i);
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    try {
      EXPECT_EQ(read_idx(folder.write("damaged.gz", damaged), 2).bytes, std::vector<std::uint8_t>(600, 'x'));
    } catch (const DataError&) {
      ++found;
    }
  }
  EXPECT_GE(found, static_cast<int>(bytes.size()) - 10);
}

TEST(IdxFile, OtherFilesAreNamed) {
  const TemporaryFolder folder;
  expect_data_error(folder.write("text", "hello, this is no idx file"), "not an idx file");
  expect_data_error(folder.write("type", idx_bytes(0x00000D02, {2, 3}, std::string(24, 'x'))), "element type 0x0d");
  expect_data_error(folder.write("dims", idx_bytes(0x00000803, {2, 3, 1}, "abcdef")), "3 dimensions, expected 2");
  expect_data_error(folder.write("more", idx_bytes(kMagic2, {2, 3}, "abcdefg")), "bytes follow");
  expect_data_error(folder.path() / "missing", "cannot open");
  expect_data_error(folder.path(), "");  // a folder in place of a file
}

TEST(IdxFile, AHeaderThatOverflowsTakesNoMemory) {
  const TemporaryFolder folder;
  expect_data_error(folder.write("huge", idx_bytes(kMagic2, {0xFFFFFFFF, 0xFFFFFFFF}, "abc")), "damaged");
  expect_data_error(folder.write("large", idx_bytes(kMagic2, {0xFFFFFFFF, 100}, "abc")), "cut short");
}

}  // namespace
}  // namespace shoal::data
