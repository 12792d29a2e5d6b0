#include "core/glob.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(Glob, AStarStaysWithinAPartOfTheName) {
  EXPECT_TRUE(glob_matches("h.*.weight", "h.0.weight"));
  EXPECT_TRUE(glob_matches("h.*.weight", "h..weight"));
  EXPECT_FALSE(glob_matches("h.*.weight", "h.0.attn.weight"));
  EXPECT_TRUE(glob_matches("*", "weight"));
  EXPECT_FALSE(glob_matches("*", "h.weight"));
  EXPECT_TRUE(glob_matches("ln_*.w*t", "ln_1.weight"));
}

TEST(Glob, TwoStarsCrossDots) {
  EXPECT_TRUE(glob_matches("**", "a.b.c"));
  EXPECT_TRUE(glob_matches("**", ""));
  EXPECT_TRUE(glob_matches("**.bias", "h.0.attn.bias"));
  EXPECT_FALSE(glob_matches("**.bias", "bias")) << "the dot is part of the pattern";
  EXPECT_TRUE(glob_matches("**bias", "bias"));
  EXPECT_TRUE(glob_matches("h.**.c_*.weight", "h.11.attn.c_proj.weight"));
}

TEST(Glob, AQuestionMarkIsOneCharacterThatIsNoDot) {
  EXPECT_TRUE(glob_matches("h.?.weight", "h.3.weight"));
  EXPECT_FALSE(glob_matches("h.?.weight", "h.11.weight"));
  EXPECT_FALSE(glob_matches("h?0", "h.0"));
}

TEST(Glob, EverythingElseIsItself) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("a", ""));
  EXPECT_FALSE(glob_matches("head", "head.weight"));
  EXPECT_TRUE(glob_matches("a[0].b", "a[0].b"));
}

}  // namespace
}  // namespace shoal
