#include "data/masking.h"

#include <algorithm>

#include "core/hash.h"

namespace shoal::data {
namespace {

// A random word mapped to [0, limit), biased by less than limit / 2^64.
std::uint64_t below(std::uint64_t limit, std::uint64_t word) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(word) * limit) >> 64);
}

// In [0, 1), from the upper 53 bits.
double unit_interval(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

std::int64_t corrupted(const MaskRule& rule, std::uint64_t key, std::uint64_t place, std::int64_t token) {
  const std::uint64_t tenth = below(10, hash_combine(key, 3 * place + 1));
  if (tenth < 8) return rule.mask_token;
  if (tenth == 9) return token;
  return static_cast<std::int64_t>(
      below(static_cast<std::uint64_t>(rule.vocab_size), hash_combine(key, 3 * place + 2)));
}

}  // namespace

void mask_tokens(const MaskRule& rule, std::int64_t epoch, std::int64_t sample, std::span<std::int64_t> tokens,
                 std::span<std::int64_t> targets) {
  std::uint64_t key = hash_combine(hash_string("masked tokens"), rule.seed);
  key = hash_combine(hash_combine(key, static_cast<std::uint64_t>(epoch)), static_cast<std::uint64_t>(sample));
  for (std::size_t place = 0; place < tokens.size(); ++place) {
    const bool predicted = unit_interval(hash_combine(key, 3 * place)) < rule.probability &&
                           !std::ranges::binary_search(rule.special, tokens[place]);
    targets[place] = predicted ? tokens[place] : kNotPredicted;
    if (predicted) tokens[place] = corrupted(rule, key, place, tokens[place]);
  }
}

}  // namespace shoal::data
