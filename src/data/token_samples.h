// Files of tokens, cut into samples of equal length.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/data_request.h"
#include "data/dataset.h"
#include "data/token_source.h"

namespace shoal::data {

// Sample i of a file begins at token i × stride and has `length` tokens; what is left at the end of a file, less than a
// sample, is not used. The samples of several files follow each other; none spans two files.
class TokenSamples {
 public:
  // Checks the tokens against `vocab_size` as check_tokens() does. Throws DataError where a file is too short for one
  // sample.
  TokenSamples(std::vector<std::unique_ptr<TokenSource>> files, std::int64_t stride, std::int64_t length,
               std::int64_t vocab_size);

  std::int64_t size() const { return first_.back(); }
  std::int64_t length() const { return length_; }
  // Fills `into` (length() elements) with sample `index`, each token checked again. Safe to call from several threads.
  void read(std::int64_t index, std::span<std::int64_t> into) const;
  // Of the files, their order and the way in which they are cut.
  std::uint32_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<std::unique_ptr<TokenSource>> files_;
  std::vector<std::int64_t> first_;  // number of each file's first sample, and that of all samples
  std::int64_t stride_, length_, vocab_size_;
  std::uint32_t fingerprint_ = 0;
};

// The samples of `split`, or nothing where there are no test data. `overlap`: tokens that a sample shares with the
// next.
std::optional<TokenSamples> open_token_samples(const DataRequest& request, Split split, std::int64_t overlap);

}  // namespace shoal::data
