#include "data/token_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "data/token_file.h"
#include "data_layer/temporary_folder.h"
#include "data_layer/token_bytes.h"

namespace shoal::data {
namespace {

namespace fs = std::filesystem;

class TokenWriterTest : public ::testing::TestWithParam<TokenFormat> {
 protected:
  TokenOutput output() const {
    const bool is_hdf5 = GetParam() == TokenFormat::hdf5;
    return {.path = folder_.path() / (is_hdf5 ? "train.h5" : "train.bin"), .format = GetParam()};
  }
  std::vector<std::int64_t> tokens_of(const fs::path& path, const std::string& type) const {
    const auto source = open_token_file(path, {.token_type = type});
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(source->size()));
    source->read(0, tokens);
    return tokens;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  TemporaryFolder folder_;
};

TEST_P(TokenWriterTest, WhatIsWrittenIsRead) {
  for (const TokenType type : {TokenType::uint16, TokenType::uint32}) {
    TokenOutput out = output();
    out.type = type;
    {
      TokenWriter writer(out);
      writer.append(std::vector<std::uint32_t>{1, 2, 50256});
      writer.end_document();
      writer.append({});
      writer.append(std::vector<std::uint32_t>{7, 65535});
      writer.end_document();
      writer.finish();
      EXPECT_EQ(writer.tokens(), 5);
    }
    EXPECT_EQ(tokens_of(out.path, name_of(type)), (std::vector<std::int64_t>{1, 2, 50256, 7, 65535}));
    EXPECT_EQ(files(), out.files().size());
  }
}

TEST_P(TokenWriterTest, TheLastTokensGoToValidation) {
  TokenOutput out = output();
  out.val_path = folder_.path() / ("val" + out.path.extension().string());
  out.val_fraction = 0.26;
  {
    TokenWriter writer(out);
    for (std::uint32_t token = 0; token < 10; ++token) {
      writer.append({&token, 1});
      if (token % 4 == 3) writer.end_document();
    }
    writer.end_document();
    writer.finish();
  }
  EXPECT_EQ(tokens_of(out.path, "uint16"), counting(0, 8));
  EXPECT_EQ(tokens_of(out.val_path, "uint16"), counting(8, 2));
  EXPECT_EQ(files(), out.files().size());
}

TEST_P(TokenWriterTest, NothingIsLeftOfWhatWasNotFinished) {
  { TokenWriter(output()).append(std::vector<std::uint32_t>{1, 2}); }
  EXPECT_EQ(files(), 0u);
  TokenWriter empty(output());
  expect_error<DataError>([&] { empty.finish(); }, "train", "the text is empty");
}

TEST_P(TokenWriterTest, AFileThatCannotBeWrittenIsNamed) {
  TokenOutput out = output();
  out.path = folder_.path() / "none" / out.path.filename();
  expect_error<IoError>([&] { TokenWriter writer(out); }, "cannot write", "none", "No such file");
}

INSTANTIATE_TEST_SUITE_P(Formats, TokenWriterTest,
                         ::testing::Values(TokenFormat::plain, TokenFormat::llmc, TokenFormat::megatron,
                                           TokenFormat::hdf5));

TEST(TokenOutput, NamesItsFiles) {
  const TokenOutput output{.path = "a/train.bin", .format = TokenFormat::megatron, .val_path = "a/val.bin"};
  EXPECT_EQ(output.files(), (std::vector<fs::path>{"a/train.bin", "a/train.idx", "a/val.bin", "a/val.idx"}));
  EXPECT_EQ(parse_token_format("hdf5"), TokenFormat::hdf5);
  expect_error<OptionError>([] { parse_token_format("csv"); }, "--format csv");
}

}  // namespace
}  // namespace shoal::data
