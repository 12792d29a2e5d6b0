#include "data/masked_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "data/masking.h"
#include "data/token_samples.h"

namespace shoal::data {
namespace {

class MaskedDataset final : public Dataset {
 public:
  MaskedDataset(TokenSamples samples, MaskRule rule) : samples_(std::move(samples)), rule_(std::move(rule)) {}

  std::int64_t size() const override { return samples_.size(); }
  std::uint32_t fingerprint() const override { return samples_.fingerprint(); }
  Batch batch(std::span<const std::int64_t> indices) const override { return epoch_batch(0, indices); }

  Batch epoch_batch(std::int64_t epoch, std::span<const std::int64_t> indices) const override {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(indices.size()), samples_.length()};
    Batch batch{at::empty(shape, at::kLong), at::empty(shape, at::kLong)};
    const auto length = static_cast<std::size_t>(samples_.length());
    std::span inputs(batch.inputs.mutable_data_ptr<std::int64_t>(), indices.size() * length);
    std::span targets(batch.targets.mutable_data_ptr<std::int64_t>(), inputs.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto tokens = inputs.subspan(i * length, length);
      samples_.read(indices[i], tokens);
      mask_tokens(rule_, epoch, indices[i], tokens, targets.subspan(i * length, length));
    }
    batch.predicted = std::ranges::count_if(targets, [](std::int64_t target) { return target != kNotPredicted; });
    return batch;
  }

 private:
  TokenSamples samples_;
  MaskRule rule_;
};

MaskRule rule_of(const DataRequest& request) {
  const std::int64_t vocab = request.vocab_size;
  SHOAL_CHECK(vocab >= 1, OptionError, "masked training needs the size of the vocabulary: give --vocab-size");
  MaskRule rule{.vocab_size = vocab,
                .mask_token = request.mask_token < 0 ? vocab - 1 : request.mask_token,
                .probability = request.mask_probability,
                .special = request.special_tokens,
                .seed = request.seed};
  SHOAL_CHECK(rule.mask_token < vocab, OptionError, "--mask-token {} is not in 0 … {}, the vocabulary", rule.mask_token,
              vocab - 1);
  SHOAL_CHECK(rule.probability > 0 && rule.probability <= 1, OptionError,
              "--mask-probability {} is not above 0 and at most 1", rule.probability);
  for (const std::int64_t token : rule.special)
    SHOAL_CHECK(token >= 0 && token < vocab, OptionError, "special token {} is not in 0 … {}, the vocabulary", token,
                vocab - 1);
  rule.special.push_back(rule.mask_token);
  std::ranges::sort(rule.special);
  return rule;
}

}  // namespace

std::unique_ptr<Dataset> open_masked_tokens(const DataRequest& request, Split split) {
  MaskRule rule = rule_of(request);
  auto samples = open_token_samples(request, split, 0);
  if (!samples) return nullptr;
  return std::make_unique<MaskedDataset>(std::move(*samples), std::move(rule));
}

}  // namespace shoal::data
