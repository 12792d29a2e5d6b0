#include "data/token_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "data/token_samples.h"

namespace shoal::data {
namespace {

class TokenDataset final : public Dataset {
 public:
  explicit TokenDataset(TokenSamples samples) : samples_(std::move(samples)) {}

  std::int64_t size() const override { return samples_.size(); }
  std::uint32_t fingerprint() const override { return samples_.fingerprint(); }

  Batch batch(std::span<const std::int64_t> indices) const override {
    const std::int64_t length = samples_.length() - 1;
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(indices.size()), length};
    Batch batch{at::empty(shape, at::kLong), at::empty(shape, at::kLong), shape[0] * length};
    std::int64_t* input = batch.inputs.mutable_data_ptr<std::int64_t>();
    std::int64_t* target = batch.targets.mutable_data_ptr<std::int64_t>();
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(length + 1));
    for (const std::int64_t index : indices) {
      samples_.read(index, tokens);
      input = std::copy_n(tokens.data(), length, input);
      target = std::copy_n(tokens.data() + 1, length, target);
    }
    return batch;
  }

 private:
  TokenSamples samples_;
};

}  // namespace

std::unique_ptr<Dataset> open_tokens(const DataRequest& request, Split split) {
  auto samples = open_token_samples(request, split, 1);
  if (!samples) return nullptr;
  return std::make_unique<TokenDataset>(std::move(*samples));
}

}  // namespace shoal::data
