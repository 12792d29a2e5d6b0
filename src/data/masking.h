// BERT's corruption of a sample (Devlin et al. 2018, section 3.1), drawn anew in every epoch as RoBERTa does (Liu et
// al. 2019, section 4.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shoal::data {

inline constexpr std::int64_t kNotPredicted = -100;  // a target that no loss is computed for, as in PyTorch

struct MaskRule {
  std::int64_t vocab_size = 0;
  std::int64_t mask_token = 0;
  double probability = 0.15;          // of a token to be predicted
  std::vector<std::int64_t> special;  // sorted; never predicted, and so never changed
  std::uint64_t seed = 1;
};

// Of a sample's `tokens`, each is predicted with the rule's probability, independently. Of the predicted ones, 8 in 10
// become the mask token, 1 in 10 a token drawn evenly from the vocabulary, and 1 in 10 stays. `targets` (as many) gets
// the true token where it is to be predicted, else kNotPredicted. A function of the arguments alone; docs/data.md gives
// it in Python.
void mask_tokens(const MaskRule& rule, std::int64_t epoch, std::int64_t sample, std::span<std::int64_t> tokens,
                 std::span<std::int64_t> targets);

}  // namespace shoal::data
