#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "core/hash.h"

namespace shoal::data {

Range part_of(Range whole, std::int64_t index, std::int64_t parts) {
  const std::int64_t least = whole.count / parts, larger = whole.count % parts;
  return {whole.begin + index * least + std::min(index, larger), least + (index < larger ? 1 : 0)};
}

std::vector<std::int64_t> permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const std::uint64_t key =
      hash_combine(hash_combine(hash_string("sample order"), seed), static_cast<std::uint64_t>(epoch));
  for (std::uint64_t i = order.size(); i > 1; --i) {
    // The high half of a 64 × 64 bit product maps a random word to [0, i), biased by less than i / 2^64.
    const auto j = static_cast<std::size_t>((static_cast<unsigned __int128>(hash_combine(key, i)) * i) >> 64);
    std::swap(order[i - 1], order[j]);
  }
  return order;
}

Sampler::Sampler(std::int64_t dataset_size, std::uint64_t seed, bool shuffle)
    : size_(dataset_size), seed_(seed), shuffle_(shuffle) {
  SHOAL_ASSERT(dataset_size >= 1);
}

Range Sampler::step_range(const SamplePosition& position, std::int64_t global_batch) const {
  SHOAL_ASSERT(position.consumed >= 0 && position.consumed < size_ && global_batch >= 1);
  return {position.consumed, std::min(global_batch, size_ - position.consumed)};
}

SamplePosition Sampler::advance(const SamplePosition& position, std::int64_t global_batch) const {
  const std::int64_t consumed = step_range(position, global_batch).end();
  return consumed < size_ ? SamplePosition{position.epoch, consumed} : SamplePosition{position.epoch + 1, 0};
}

std::span<const std::int64_t> Sampler::samples(std::int64_t epoch, Range places) {
  if (ordered_epoch_ != epoch) {
    if (shuffle_) {
      order_ = permutation(size_, seed_, epoch);
    } else if (order_.empty()) {
      order_.resize(static_cast<std::size_t>(size_));
      std::iota(order_.begin(), order_.end(), 0);
    }
    ordered_epoch_ = epoch;
  }
  SHOAL_ASSERT(places.begin >= 0 && places.end() <= size_);
  return std::span(order_).subspan(static_cast<std::size_t>(places.begin), static_cast<std::size_t>(places.count));
}

}  // namespace shoal::data
