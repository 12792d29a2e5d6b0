#include "data/token_file.h"

#include <gtest/gtest.h>

#include "data/tokenizer.h"
#include "data_layer/temporary_folder.h"
#include "data_layer/token_bytes.h"

namespace shoal::data {
namespace {

class TokenFileTest : public ::testing::Test {
 protected:
  std::vector<std::int64_t> tokens_of(const std::filesystem::path& path, const DataRequest& request = {}) const {
    const auto source = open_token_file(path, request);
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(source->size()));
    source->read(0, tokens);
    return tokens;
  }
  auto opening(const std::string& name, const std::string& bytes, const DataRequest& request = {}) const {
    return [=, path = folder_.write(name, bytes)] { open_token_file(path, request); };
  }
  TemporaryFolder folder_;
};

std::string words(const std::vector<std::int32_t>& values) {
  return bytes_of_tokens<std::int32_t>({values.begin(), values.end()});
}

std::string llmc_bytes(std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& tokens) {
  std::string header = words({magic, version, count});
  header.resize(1024, '\0');
  return header + tokens;
}

// An index as Megatron's writer makes it: one sequence a document.
std::string megatron_bytes(std::uint8_t type, std::int64_t bytes_a_token, const std::vector<std::int64_t>& lengths) {
  std::string index("MMIDIDX\0\0", 9);
  index += bytes_of_tokens<std::int64_t>({1});
  index.push_back(static_cast<char>(type));
  index += bytes_of_tokens<std::int64_t>({std::ssize(lengths), std::ssize(lengths) + 1});
  index += bytes_of_tokens<std::int32_t>(lengths);
  std::int64_t offset = 0;
  for (const std::int64_t length : lengths) {
    index += bytes_of_tokens<std::int64_t>({offset});
    offset += length * bytes_a_token;
  }
  return index + bytes_of_tokens<std::int64_t>(counting(0, std::ssize(lengths) + 1));
}

const std::vector<std::int64_t> kTokens{5, 50256, 0, 17, 65535, 2};

TEST_F(TokenFileTest, Plain) {
  EXPECT_EQ(tokens_of(folder_.write("a.bin", bytes_of_tokens<std::uint16_t>(kTokens))), kTokens);
  EXPECT_EQ(tokens_of(folder_.write("b.bin", bytes_of_tokens<std::uint32_t>(kTokens)), {.token_type = "uint32"}),
            kTokens);
  EXPECT_EQ(tokens_of(folder_.path() / "b.bin", {.vocab_size = 128256}), kTokens);
  EXPECT_EQ(tokens_of(folder_.path() / "a.bin", {.vocab_size = 65536}), kTokens);
  expect_error<DataError>(opening("c.bin", std::string(6, 'x'), {.token_type = "uint32"}),
                          "c.bin: its 6 bytes of tokens are no multiple of 4, the size of uint32", "truncated");
  expect_error<OptionError>(opening("c.bin", "ab", {.token_type = "int8"}), "--token-type int8");
}

TEST_F(TokenFileTest, Llmc) {
  const std::string narrow = bytes_of_tokens<std::uint16_t>(kTokens), wide = bytes_of_tokens<std::uint32_t>(kTokens);
  EXPECT_EQ(tokens_of(folder_.write("a.bin", llmc_bytes(20240520, 1, 6, narrow))), kTokens);
  EXPECT_EQ(tokens_of(folder_.write("b.bin", llmc_bytes(20240801, 7, 6, wide))), kTokens);
  expect_error<DataError>(opening("c.bin", llmc_bytes(20240520, 2, 6, narrow)), "c.bin: llm.c header of version 2");
  expect_error<DataError>(opening("c.bin", llmc_bytes(20240520, 1, 7, narrow)), "promises 7 tokens of uint16, 6 are");
  expect_error<DataError>(opening("c.bin", llmc_bytes(20240520, 1, 6, narrow + "x")), "13 bytes of tokens",
                          "truncated");
  expect_error<DataError>(opening("c.bin", words({20240520, 1})), "ends within llm.c's header");
}

TEST_F(TokenFileTest, Megatron) {
  folder_.write("a.bin", bytes_of_tokens<std::uint16_t>(kTokens));
  folder_.write("a.idx", megatron_bytes(8, 2, {4, 0, 2}));
  for (const char* name : {"a", "a.bin", "a.idx"}) EXPECT_EQ(tokens_of(folder_.path() / name), kTokens) << name;
  folder_.write("b.bin", bytes_of_tokens<std::int32_t>(kTokens));
  folder_.write("b.idx", megatron_bytes(4, 4, {6}) + '\0');  // with the modes of multimodal data
  EXPECT_EQ(tokens_of(folder_.path() / "b"), kTokens);
}

TEST_F(TokenFileTest, BadMegatronIndices) {
  const auto with_index = [&](const std::string& index) {
    folder_.write("a.bin", bytes_of_tokens<std::uint16_t>(kTokens));
    return opening("a.idx", index);
  };
  std::string version = megatron_bytes(8, 2, {6}), gap = version;
  version[9] = 2;
  gap[9 + 8 + 1 + 16 + 4] = 2;  // the first offset
  expect_error<DataError>(with_index(version), "a.idx: Megatron index of version 2");
  expect_error<DataError>(with_index(megatron_bytes(6, 2, {6})), "type code 6");
  expect_error<DataError>(with_index(megatron_bytes(8, 2, {4})), "take 8 bytes", "has 12");
  expect_error<DataError>(with_index(gap), "sequence 0 has 6 tokens from byte 2 on, where byte 0 comes next");
  expect_error<DataError>(with_index("no index"), "a.idx: this is no index of Megatron's");
  const std::string whole = megatron_bytes(8, 2, {4, 2});
  for (std::size_t length = 9; length < whole.size(); ++length)
    EXPECT_THROW(with_index(whole.substr(0, length))(), DataError) << length;
  std::filesystem::remove(folder_.path() / "a.bin");
  folder_.write("a.idx", megatron_bytes(8, 2, {6}));
  EXPECT_THROW(open_token_file(folder_.path() / "a", {}), DataError);
}

TEST_F(TokenFileTest, AHeaderThatOverflowsIsRefused) {
  std::string index = megatron_bytes(8, 2, {6});
  for (int i = 0; i < 8; ++i) index[static_cast<std::size_t>(18 + i)] = '\xFF';  // the number of sequences
  folder_.write("a.bin", bytes_of_tokens<std::uint16_t>(kTokens));
  expect_error<DataError>(opening("a.idx", index), "do not fit its length");
}

TEST_F(TokenFileTest, Text) {
  const std::string text = "In the beginning\nGod created the heaven.";
  const auto tokenizer = make_tokenizer("gpt2");
  const auto encoded = encode(*tokenizer, text);
  const std::vector<std::int64_t> expected(encoded.begin(), encoded.end());
  EXPECT_EQ(tokens_of(folder_.write("a.txt", text)), expected);
  EXPECT_EQ(tokens_of(folder_.write("a.txt.gz", gzip(text))), expected);
  EXPECT_EQ(tokens_of(folder_.write("story", text)), expected);
  EXPECT_EQ(tokens_of(folder_.path() / "a.txt", {.tokenizer = "bytes"}),
            std::vector<std::int64_t>(text.begin(), text.end()));
  EXPECT_EQ(tokens_of(folder_.write("a.bin", text)).size(), text.size() / 2);  // the name says tokens
  EXPECT_EQ(tokens_of(folder_.path() / "story", {.token_type = "uint16"}).size(), text.size() / 2);
}

TEST_F(TokenFileTest, WhatIsNotTextIsNotTakenForIt) {
  const std::string narrow = bytes_of_tokens<std::uint16_t>(kTokens);
  EXPECT_EQ(tokens_of(folder_.write("tokens", narrow)), kTokens);
  EXPECT_EQ(tokens_of(folder_.write("short", "\x01\xF0")), (std::vector<std::int64_t>{0xF001}));
  expect_error<DataError>(opening("a.bin.gz", gzip(narrow)), "a.bin.gz: compressed token files cannot be mapped");
  expect_error<DataError>(opening("a.txt", "\xFF\xFEh\0i\0"), "a.txt: this text is UTF-16", "iconv");
  const std::string whole = gzip("some text");
  expect_error<DataError>(opening("a.txt.gz", whole.substr(0, whole.size() - 4)), "a.txt.gz", "cut short");
}

TEST_F(TokenFileTest, FilesThatAreNoFiles) {
  expect_error<DataError>([&] { open_token_file(folder_.path() / "none", {}); }, "cannot open", "No such file");
  expect_error<DataError>([&] { open_token_file(folder_.path(), {}); }, "is not a file");
  expect_error<DataError>(opening("a.bin", ""), "a.bin: the file is empty");
}

}  // namespace
}  // namespace shoal::data
