#include "core/nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shoal {
namespace {

// The definition, by recursion.
std::size_t by_definition(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const auto without = [](std::string_view text, std::size_t n) { return text.substr(0, text.size() - n); };
  std::size_t best = std::min(by_definition(without(a, 1), b), by_definition(a, without(b, 1))) + 1;
  best = std::min(best, by_definition(without(a, 1), without(b, 1)) + (a.back() != b.back()));
  const bool swapped = a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && a[a.size() - 2] == b.back();
  return swapped ? std::min(best, by_definition(without(a, 2), without(b, 2)) + 1) : best;
}

TEST(Nearest, DistanceIsThatOfTheDefinition) {
  std::mt19937 random(1);
  const auto word = [&] {
    std::string text(random() % 7, 'a');
    for (char& letter : text) letter = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 300; ++i) {
    const std::string a = word(), b = word();
    EXPECT_EQ(edit_distance(a, b), by_definition(a, b)) << a << " " << b;
  }
}

TEST(Nearest, FindsWhatIsMistypedAndNothingElse) {
  const std::vector<std::string> known{"batch-size", "global-batch-size", "data", "lr", "epochs", "layers"};
  EXPECT_EQ(nearest("bacth-size", known), "batch-size");
  EXPECT_EQ(nearest("batchsize", known), "batch-size");
  EXPECT_EQ(nearest("epoch", known), "epochs");
  EXPECT_EQ(nearest("frobnicate", known), "");
  EXPECT_EQ(nearest("x", known), "");
  EXPECT_EQ(nearest("data", {}), "");
  EXPECT_EQ(did_you_mean("dta", known, "", "--"), "; did you mean '--data'?");
  EXPECT_EQ(did_you_mean("frobnicate", known, "; see --help"), "; see --help");
}

}  // namespace
}  // namespace shoal
