#include "optim/parameter_groups.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"

namespace shoal::optim {
namespace {

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "";
}

GroupRule rule(std::optional<double> weight_decay, double lr_scale = 1) { return {weight_decay, lr_scale}; }

TEST(ParameterGroups, AreOneUnlessAsked) {
  const ParameterGroups groups;
  EXPECT_EQ(groups.match("h.0.ln_1.weight", 1), rule({}));
  EXPECT_EQ(groups.match("h.0.attn.weight", 2), rule({}));
  EXPECT_EQ(ParameterGroups::parse("none", {}).match("h.0.ln_1.weight", 1), rule({}));
}

TEST(ParameterGroups, AutoLeavesNormsBiasesAndScalarsWithoutDecay) {
  const ParameterGroups groups = ParameterGroups::parse("auto", {});
  EXPECT_EQ(groups.match("h.0.ln_1.weight", 1), rule(0));
  EXPECT_EQ(groups.match("scale", 0), rule(0));
  EXPECT_EQ(groups.match("h.0.attn.weight", 2), rule({}));
  EXPECT_EQ(groups.match("conv.weight", 4), rule({}));
}

TEST(ParameterGroups, NoDecayByName) {
  const ParameterGroups groups = ParameterGroups::parse("**.bias,wte.*", {});
  EXPECT_EQ(groups.match("h.0.attn.bias", 1), rule(0));
  EXPECT_EQ(groups.match("wte.weight", 2), rule(0));
  EXPECT_EQ(groups.match("h.0.ln_1.weight", 1), rule({}));
}

TEST(ParameterGroups, TheLastMatchSetsWhatItNames) {
  const ParameterGroups groups =
      ParameterGroups::parse("auto", {"**:lr-scale=0.5", "head.*:weight-decay=0.3,lr-scale=2", "head.bias:lr-scale=0"});
  EXPECT_EQ(groups.match("h.0.attn.weight", 2), rule({}, 0.5));
  EXPECT_EQ(groups.match("h.0.ln_1.weight", 1), rule(0, 0.5)) << "--no-decay counts where no group says otherwise";
  EXPECT_EQ(groups.match("head.weight", 2), rule(0.3, 2));
  EXPECT_EQ(groups.match("head.scale", 1), rule(0.3, 2)) << "and not where one does";
  EXPECT_EQ(groups.match("head.bias", 1), rule(0, 0)) << "a group takes nothing over from those before it";
}

TEST(ParameterGroups, RejectWhatTheyDoNotKnow) {
  for (const char* text : {"", "head", ":lr-scale=1", "head:", "head:lr=1", "head:lr-scale", "head:lr-scale=",
                           "head:lr-scale=-1", "head:lr-scale=nan", "head:weight-decay=x", "head:weight-decay=1e999",
                           "head:lr-scale=1,", "head:lr-scale=1,lr-scale=2", "head:lr-scale=1 weight-decay=0"}) {
    const std::string what = complaint([&] { ParameterGroups::parse("auto", {text}); });
    EXPECT_TRUE(what.starts_with("--param-group")) << "'" << text << "': " << what;
  }
  for (const char* text : {"", ",", "a,", ",a"})
    EXPECT_TRUE(complaint([&] { ParameterGroups::parse(text, {}); }).starts_with("--no-decay")) << text;
}

TEST(ParameterGroups, AGlobThatTakesNothingIsATypo) {
  const std::vector<std::string> names{"h.0.attn.weight", "head.weight"};
  ParameterGroups::parse("head.*", {"**.weight:lr-scale=2"}).check_used(names);
  ParameterGroups::parse("auto", {}).check_used({});
  std::string what = complaint([&] { ParameterGroups::parse("head.*,*.attn.bias", {}).check_used(names); });
  EXPECT_NE(what.find("--no-decay *.attn.bias"), std::string::npos) << what;
  what = complaint([&] { ParameterGroups::parse("auto", {"hed.*:lr-scale=2"}).check_used(names); });
  EXPECT_NE(what.find("--param-group hed.*:lr-scale=2"), std::string::npos) << what;
  EXPECT_NE(what.find("h.0.attn.weight"), std::string::npos) << "says what names look like: " << what;
}

}  // namespace
}  // namespace shoal::optim
