#include "core/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace shoal {
namespace {

// What follows from these hashes is stored in checkpoints and decides initial weights: the values are frozen.

TEST(Hash, Mix64IsSplitMix64) {
  // The first outputs of SplitMix64 from seed 0: its state goes up by the golden gamma.
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(mix64(0x9E3779B97F4A7C15ull), 0x6E789E6AA1B965F4ull);
  EXPECT_EQ(mix64(2 * 0x9E3779B97F4A7C15ull), 0x06C45D188009454Full);
}

TEST(Hash, StringsAreMixedFnv1a) {
  EXPECT_EQ(hash_string(""), mix64(0xCBF29CE484222325ull));
  EXPECT_EQ(hash_string("a"), mix64(0xAF63DC4C8601EC8Cull));
  EXPECT_EQ(hash_string("foobar"), mix64(0x85944171F73967E8ull));
}

TEST(Hash, BytesAbove127AreUnsigned) { EXPECT_EQ(hash_string("\xFF"), mix64(0xAF64724C8602EB6Eull)); }

TEST(Hash, CombineMindsTheOrder) {
  EXPECT_NE(hash_combine(1, 2), hash_combine(2, 1));
  EXPECT_EQ(hash_combine(1, 2), mix64(1 ^ mix64(2)));
}

TEST(Hash, NearInputsDoNotCollide) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    for (std::uint64_t index = 0; index < 100; ++index) seen.insert(hash_combine(seed, index));
  EXPECT_EQ(seen.size(), 10'000u);
}

static_assert(mix64(0) == 0xE220A8397B1DCDAFull, "usable at compile time");

}  // namespace
}  // namespace shoal
