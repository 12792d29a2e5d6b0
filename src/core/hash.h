// Small deterministic hashes and the one generator of pseudo-random numbers that does not come from LibTorch.
// They are part of what a run means (initial weights, order of samples, dropout), so they never change.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoal {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash_combine(std::uint64_t a, std::uint64_t b) noexcept { return mix64(a ^ mix64(b)); }

// FNV-1a over the bytes of `text`, then mixed.
constexpr std::uint64_t hash_string(std::string_view text) noexcept {
  std::uint64_t h = 0xCBF29CE484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return mix64(h);
}

}  // namespace shoal
