#include "data/token_dataset.h"

#include <gtest/gtest.h>

#include "data_layer/batches.h"
#include "data_layer/temporary_folder.h"
#include "data_layer/token_bytes.h"

namespace shoal::data {
namespace {

DataRequest request_of(const std::filesystem::path& path, std::int64_t sequence_length) {
  return {.path = path, .sequence_length = sequence_length, .vocab_size = 50257, .token_type = "uint16"};
}

TEST(TokenDataset, ASampleIsFollowedByTheTokenAfterIt) {
  const TemporaryFolder folder;
  const auto path = folder.write("train.bin", bytes_of_tokens<std::uint16_t>(counting(100, 11)));
  const auto dataset = open_tokens(request_of(path, 5), Split::train);
  ASSERT_EQ(dataset->size(), 2);  // 11 tokens: 0 … 5 and 5 … 10
  const std::vector<std::int64_t> indices{1, 0};
  const Batch batch = dataset->batch(indices);
  EXPECT_EQ(batch.inputs.sizes(), (at::IntArrayRef{2, 5}));
  EXPECT_EQ(batch.inputs.scalar_type(), at::kLong);
  EXPECT_EQ(values(batch.inputs), (std::vector<std::int64_t>{105, 106, 107, 108, 109, 100, 101, 102, 103, 104}));
  EXPECT_EQ(values(batch.targets), (std::vector<std::int64_t>{106, 107, 108, 109, 110, 101, 102, 103, 104, 105}));
}

TEST(TokenDataset, TheNumberOfSamples) {
  const TemporaryFolder folder;
  for (const std::int64_t tokens : {6, 10, 11, 15, 16, 1001}) {
    const auto path = folder.write("train.bin", bytes_of_tokens<std::uint16_t>(counting(0, tokens)));
    EXPECT_EQ(open_tokens(request_of(path, 5), Split::train)->size(), (tokens - 1) / 5) << tokens;
  }
}

TEST(TokenDataset, SamplesOfAFolderFollowEachOtherFileByFile) {
  const TemporaryFolder folder;
  folder.write("book_train_000002.bin", bytes_of_tokens<std::uint16_t>(counting(200, 8)));
  folder.write("book_train_000001.bin", bytes_of_tokens<std::uint16_t>(counting(100, 12)));
  folder.write("book_val_000001.bin", bytes_of_tokens<std::uint16_t>(counting(300, 6)));
  folder.write("notes", "no tokens");
  folder.write("more_train.bin.77.part", "not complete");
  const auto train = open_tokens(request_of(folder.path(), 5), Split::train);
  ASSERT_EQ(train->size(), 3);
  const std::vector<std::int64_t> all{0, 1, 2};
  EXPECT_EQ(values(train->batch(all).inputs),
            (std::vector<std::int64_t>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 200, 201, 202, 203, 204}));
  const auto test = open_tokens(request_of(folder.path(), 5), Split::test);
  ASSERT_EQ(test->size(), 1);
  EXPECT_EQ(values(test->batch(std::vector<std::int64_t>{0}).targets),
            (std::vector<std::int64_t>{301, 302, 303, 304, 305}));
}

TEST(TokenDataset, TestDataMayBeAbsentOrElsewhere) {
  const TemporaryFolder folder;
  const auto path = folder.write("train.bin", bytes_of_tokens<std::uint16_t>(counting(0, 11)));
  EXPECT_EQ(open_tokens(request_of(path, 5), Split::test), nullptr);
  EXPECT_EQ(open_tokens(request_of(folder.path(), 5), Split::test), nullptr);
  DataRequest request = request_of(path, 5);
  request.test_path = folder.write("other.bin", bytes_of_tokens<std::uint16_t>(counting(0, 21)));
  EXPECT_EQ(open_tokens(request, Split::test)->size(), 4);
  EXPECT_EQ(open_tokens(request, Split::train)->size(), 2);
}

TEST(TokenDataset, FingerprintTellsDataApart) {
  const TemporaryFolder folder;
  const auto fingerprint = [&](const std::vector<std::int64_t>& tokens, std::int64_t sequence_length) {
    const auto path = folder.write("train.bin", bytes_of_tokens<std::uint16_t>(tokens));
    return open_tokens(request_of(path, sequence_length), Split::train)->fingerprint();
  };
  std::vector<std::int64_t> tokens = counting(0, 40000);
  const std::uint32_t first = fingerprint(tokens, 5);
  EXPECT_EQ(fingerprint(tokens, 5), first);
  EXPECT_NE(fingerprint(tokens, 6), first);
  EXPECT_NE(fingerprint(counting(0, 39999), 5), first);
  tokens[20000] = 1;
  EXPECT_NE(fingerprint(tokens, 5), first);
}

TEST(TokenDataset, ATokenBeyondTheVocabularyIsNamedBeforeTraining) {
  const TemporaryFolder folder;
  std::vector<std::int64_t> tokens = counting(0, 100000 / 2);
  tokens.insert(tokens.end(), {50257, 1});
  const auto path = folder.write("train.bin", bytes_of_tokens<std::uint16_t>(tokens));
  expect_error<DataError>([&] { open_tokens(request_of(path, 5), Split::train); },
                          path.string() + ": token 50000 is 50257, which is not in 0 … 50256", "--vocab-size");
}

TEST(TokenDataset, BadRequestsAreNamed) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& bytes, std::int64_t sequence_length) {
    return
        [=, path = folder.write("train.bin", bytes)] { open_tokens(request_of(path, sequence_length), Split::train); };
  };
  expect_error<DataError>(open("", 5), "train.bin: the file is empty");
  expect_error<DataError>(open("abc", 1), "3 bytes of tokens are no multiple of 2", "--token-type");
  expect_error<DataError>(open("abcdefghij", 5), "5 tokens are too few for one sample, which needs 6",
                          "--sequence-length");
  expect_error<OptionError>(open("abcd", 0), "--sequence-length must be 1 or more");
  expect_error<DataError>([&] { open_tokens(request_of(folder.path() / "none", 5), Split::train); }, "--data", "none");
  const TemporaryFolder empty;
  expect_error<DataError>([&] { open_tokens(request_of(empty.path(), 5), Split::train); }, "no file in this folder");
  DataRequest request = request_of(folder.path(), 5);
  request.test_path = empty.path();
  expect_error<DataError>([&] { open_tokens(request, Split::test); }, "--test-data", "no file in this folder");
}

}  // namespace
}  // namespace shoal::data
