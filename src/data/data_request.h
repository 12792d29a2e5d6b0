// What is wanted of --data before anything is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shoal::data {

struct DataRequest {
  std::filesystem::path path;        // --data
  std::filesystem::path test_path;   // --test-data; empty: what lies beside `path` by the format's convention
  std::int64_t sequence_length = 0;  // tokens a sample
  std::int64_t vocab_size = 0;       // of the model: a token must be below it; 0: not known
  std::string token_type = "auto";   // of plain token files: uint16, uint32; auto: what the vocabulary needs
  std::string tokenizer = "gpt2";    // for text: gpt2 (built-in byte-pair encoding), bytes, or a folder with vocab.bpe
  std::int64_t mask_token = -1;      // masked LM: the id of [MASK]; -1: the last of the vocabulary
  double mask_probability = 0.15;    // masked LM: of a token to be predicted
  std::vector<std::int64_t> special_tokens = {};  // masked LM: never predicted; [MASK] is not, anyway
  std::uint64_t seed = 1;  // masked LM: of the masks, which depend on (seed, epoch, sample) alone
};

}  // namespace shoal::data
