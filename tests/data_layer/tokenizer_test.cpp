#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "core/hash.h"
#include "data/byte_pair_vocabulary.h"
#include "data/gpt2_pieces.h"
#include "data_layer/temporary_folder.h"
#include "data_layer/token_bytes.h"

namespace shoal::data {
namespace {

using Tokens = std::vector<std::uint32_t>;

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    found.emplace_back(text.substr(0, gpt2_piece(text)));
    text.remove_prefix(found.back().size());
  }
  return found;
}

TEST(Gpt2Pieces, FollowTheRegularExpression) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("Hello, world 42!"), (Pieces{"Hello", ",", " world", " 42", "!"}));
  EXPECT_EQ(pieces("we've they'll it's 'tis"), (Pieces{"we", "'ve", " they", "'ll", " it", "'s", " '", "tis"}));
  EXPECT_EQ(pieces("a   b  \n c \n"), (Pieces{"a", "  ", " b", "  \n", " c", " \n"}));
  EXPECT_EQ(pieces("\n\n\nx"), (Pieces{"\n\n", "\n", "x"}));
  EXPECT_EQ(pieces("na\u00EFve \u6C34\u00B2"), (Pieces{"na\u00EFve", " \u6C34", "\u00B2"}));
  EXPECT_EQ(pieces("e\u0301"), (Pieces{"e", "\u0301"}));  // a combining mark is no letter
  EXPECT_EQ(pieces("a\u3000\u3000b"), (Pieces{"a", "\u3000", "\u3000", "b"}));
  EXPECT_EQ(pieces("a\xFF\xC3 b"), (Pieces{"a", "\xFF\xC3", " b"}));  // bytes that are no UTF-8
}

// Token numbers that every GPT-2 tokenizer gives; tests/interop compares much more.
TEST(Gpt2Tokenizer, KnownTokens) {
  const auto tokenizer = make_tokenizer("gpt2");
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_text(), 50256u);
  EXPECT_EQ(encode(*tokenizer, "Hello, world!"), (Tokens{15496, 11, 995, 0}));
  EXPECT_EQ(encode(*tokenizer, "a<|endoftext|>b"), (Tokens{64, 50256, 65}));
  EXPECT_EQ(encode(*tokenizer, "<|endoftext|><|endoftext|>"), (Tokens{50256, 50256}));
  EXPECT_EQ(encode(*tokenizer, ""), Tokens{});
}

std::string random_text(std::uint64_t seed, std::size_t bytes) {
  static const std::vector<std::string> kParts{"word",       " ",        "  ",     "\n",      "'s",     "'ll",
                                               "'",          "7",        "42",     "\t",      "\u00E9", "\u6C34",
                                               "\U0001F600", "\u0301",   "\u3000", "<|endof", "text|>", "<|endoftext|>",
                                               "\xFF",       "\xE2\x82", "\r\n",   "the ",    "Abc."};
  std::mt19937_64 random(seed);
  std::string text;
  while (text.size() < bytes) text += kParts[random() % kParts.size()];
  return text;
}

TEST(Gpt2Tokenizer, DecodesToTheSameBytes) {
  const auto tokenizer = make_tokenizer("gpt2");
  std::string all_bytes;
  for (int i = 0; i < 65536; ++i) all_bytes.push_back(static_cast<char>(mix64(static_cast<std::uint64_t>(i))));
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, all_bytes)), all_bytes);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = random_text(seed, 2000);
    EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), text);
  }
}

Tokens encode_in_parts(Tokenizer& tokenizer, const std::string& text, std::size_t part_bytes) {
  Tokens tokens;
  std::string left;
  for (std::size_t at = 0; at < text.size(); at += part_bytes) {
    left += text.substr(at, part_bytes);
    left.erase(0, tokenizer.encode_some(left, at + part_bytes >= text.size(), tokens));
  }
  return tokens;
}

TEST(Gpt2Tokenizer, TextInPartsHasTheTokensOfTheWhole) {
  const auto tokenizer = make_tokenizer("gpt2");
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::string text = random_text(seed, 600);
    const Tokens whole = encode(*tokenizer, text);
    for (const std::size_t part_bytes : {1, 2, 3, 7, 16, 100})
      EXPECT_EQ(encode_in_parts(*tokenizer, text, part_bytes), whole) << "seed " << seed << ", parts of " << part_bytes;
  }
}

TEST(Gpt2Tokenizer, APieceOfAMegabyteIsMergedInTime) {
  const auto tokenizer = make_tokenizer("gpt2");
  const std::string letters(1 << 20, 'a'), spaces(1 << 20, ' ');
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, letters)), letters);
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, spaces)), spaces);
}

TEST(ByteTokenizer, ATokenIsAByte) {
  const auto tokenizer = make_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
  EXPECT_EQ(encode(*tokenizer, "A\xFF\n"), (Tokens{65, 255, 10}));
  EXPECT_EQ(decode(*tokenizer, Tokens{65, 255, 10}), "A\xFF\n");
  std::string ignored;
  EXPECT_THROW(tokenizer->decode(256, ignored), DataError);
}

TEST(Tokenizer, AFolderWithMergesIsOneToo) {
  const TemporaryFolder folder;
  folder.write("merges.txt", "#version: 0.2\r\nt h\r\nth e\r\n");
  const auto tokenizer = make_tokenizer(folder.path().string());
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(encode(*tokenizer, "then"), (Tokens{257, 77}));  // "the" is the second merge; 'n' - '!' = 77
  EXPECT_EQ(decode(*tokenizer, Tokens{257, 77, 258}), "then<|endoftext|>");
  std::string ignored;
  expect_error<DataError>([&] { tokenizer->decode(259, ignored); }, "token 259 is not in 0 … 258");
}

TEST(Tokenizer, NumbersBesideTheMergesMustAgree) {
  const TemporaryFolder folder;
  folder.write("vocab.bpe", "t h\n");
  std::string numbers = "{";
  const auto vocabulary = BytePairVocabulary("t h\n", "test");
  for (std::uint32_t token = 0; token < 257; ++token) {
    const std::string form = vocabulary.written_form(token);
    const char* escape = form == "\"" || form == "\\" ? "\\" : "";
    numbers += fmt::format("\"{}{}\": {}, ", escape, form, token);
  }
  folder.write("encoder.json", numbers + "\"<|endoftext|>\": 257}");
  EXPECT_EQ(make_tokenizer(folder.path().string())->vocab_size(), 258);
  folder.write("encoder.json", numbers + "\"<|endoftext|>\": 0}");
  expect_error<DataError>([&] { make_tokenizer(folder.path().string()); },
                          "encoder.json: '<|endoftext|>' has not the "
                          "number 257");
  folder.write("encoder.json", "[]");
  expect_error<DataError>([&] { make_tokenizer(folder.path().string()); }, "encoder.json: this is no JSON object");
}

TEST(Tokenizer, BadMergesAreNamed) {
  const TemporaryFolder folder;
  const auto make = [&](const std::string& merges) {
    return [&folder, merges] {
      folder.write("vocab.bpe", merges);
      make_tokenizer(folder.path().string());
    };
  };
  expect_error<DataError>(make("#version: 0.2\nt h\nth\n"), "vocab.bpe: line 3 is not of the form 'LEFT RIGHT': 'th'");
  expect_error<DataError>(make("t h e\n"), "line 1 is not");
  expect_error<DataError>(make("t h\nthe n\n"), "line 2: 'the' is neither a byte nor made by a merge above");
  expect_error<DataError>(make(""), "no merges");
  expect_error<OptionError>([] { make_tokenizer("no such folder"); }, "--tokenizer no such folder is neither gpt2");
}

}  // namespace
}  // namespace shoal::data
