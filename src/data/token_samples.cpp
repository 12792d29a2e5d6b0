#include "data/token_samples.h"

#include <algorithm>

#include "core/check.h"
#include "core/crc32c.h"
#include "data/token_file.h"
#include "data/token_paths.h"

namespace shoal::data {

TokenSamples::TokenSamples(std::vector<std::unique_ptr<TokenSource>> files, std::int64_t stride, std::int64_t length,
                           std::int64_t vocab_size)
    : files_(std::move(files)), first_{0}, stride_(stride), length_(length), vocab_size_(vocab_size) {
  SHOAL_ASSERT(!files_.empty() && stride >= 1 && length >= stride);
  std::vector<std::int64_t> words{stride, length};
  for (const auto& file : files_) {
    SHOAL_CHECK(file->size() >= length, DataError,
                "{}: {} tokens are too few for one sample, which needs {}: give more data or a smaller "
                "--sequence-length than {}",
                file->name(), file->size(), length, stride);
    check_tokens(*file, vocab_size);
    first_.push_back(first_.back() + (file->size() - length) / stride + 1);
    words.push_back(fingerprint_of(*file));
  }
  fingerprint_ = crc32c(words.data(), words.size() * sizeof(words[0]));
}

void TokenSamples::read(std::int64_t index, std::span<std::int64_t> into) const {
  SHOAL_ASSERT(index >= 0 && index < size() && static_cast<std::int64_t>(into.size()) == length_);
  const auto next = std::upper_bound(first_.begin(), first_.end(), index);
  const TokenSource& file = *files_[static_cast<std::size_t>(next - first_.begin() - 1)];
  const std::int64_t begin = (index - *(next - 1)) * stride_;
  file.read(begin, into);
  check_tokens_read(file, begin, into, vocab_size_);
}

std::optional<TokenSamples> open_token_samples(const DataRequest& request, Split split, std::int64_t overlap) {
  SHOAL_CHECK(request.sequence_length >= 1, OptionError, "--sequence-length must be 1 or more, not {}",
              request.sequence_length);
  std::vector<std::unique_ptr<TokenSource>> files;
  for (const auto& path : token_paths(request, split)) files.push_back(open_token_file(path, request));
  if (files.empty()) return std::nullopt;
  return TokenSamples(std::move(files), request.sequence_length, request.sequence_length + overlap, request.vocab_size);
}

}  // namespace shoal::data
