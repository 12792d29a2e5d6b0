#include "launch/hostlist.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "core/error.h"
#include "launch/variables.h"

namespace shoal::launch {
namespace {

using Names = std::vector<std::string>;

std::string fault_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "no error";
}

// The message gives the place (counted from 1), the text and the reason.
void expect_hostlist_fault(const std::string& text, std::size_t place, const std::string& reason) {
  const std::string what = fault_of([&] { expand_hostlist(text); });
  EXPECT_TRUE(what.starts_with("character " + std::to_string(place) + " of '")) << text << ": " << what;
  EXPECT_NE(what.find(reason), std::string::npos) << text << ": " << what;
  if (text.size() < 60) {
    EXPECT_NE(what.find("'" + text + "'"), std::string::npos) << what;
  }
}

void expect_counts_fault(const std::string& text, std::size_t place, const std::string& reason) {
  const std::string what = fault_of([&] { expand_counts(text); });
  EXPECT_TRUE(what.starts_with("character " + std::to_string(place) + " of '" + text + "'")) << what;
  EXPECT_NE(what.find(reason), std::string::npos) << text << ": " << what;
}

TEST(Hostlist, PlainNames) {
  EXPECT_EQ(expand_hostlist("host"), Names{"host"});
  EXPECT_EQ(expand_hostlist("a,b,c"), (Names{"a", "b", "c"}));
  EXPECT_EQ(expand_hostlist("node-7.cluster_2.example.org"), Names{"node-7.cluster_2.example.org"});
  EXPECT_EQ(expand_hostlist(""), Names{});
  EXPECT_EQ(expand_hostlist(" ,\t"), Names{});
}

TEST(Hostlist, RangesKeepTheWidthOfTheirLowEnd) {
  EXPECT_EQ(expand_hostlist("n[08,10-12]"), (Names{"n08", "n10", "n11", "n12"}));
  EXPECT_EQ(expand_hostlist("a[9-10]"), (Names{"a9", "a10"}));
  EXPECT_EQ(expand_hostlist("a[09-10]"), (Names{"a09", "a10"}));
  EXPECT_EQ(expand_hostlist("a[099-101,1]"), (Names{"a099", "a100", "a101", "a1"}));
  EXPECT_EQ(expand_hostlist("jean-zay-ia[810,817-819]"),
            (Names{"jean-zay-ia810", "jean-zay-ia817", "jean-zay-ia818", "jean-zay-ia819"}));
  EXPECT_EQ(expand_hostlist("d05-[41-42]"), (Names{"d05-41", "d05-42"}));
  EXPECT_EQ(expand_hostlist("[3-4]"), (Names{"3", "4"}));
}

TEST(Hostlist, SuffixesAndSeveralItems) {
  EXPECT_EQ(expand_hostlist("node[1-2]-ib"), (Names{"node1-ib", "node2-ib"}));
  EXPECT_EQ(expand_hostlist("nodeA,nodeB[001,003],nodeC"), (Names{"nodeA", "nodeB001", "nodeB003", "nodeC"}));
  EXPECT_EQ(expand_hostlist("c[1-2]-ib[0-1],x"), (Names{"c1-ib0", "c1-ib1", "c2-ib0", "c2-ib1", "x"}));
  EXPECT_EQ(expand_hostlist(" a  b[1-2]\t,c\n"), (Names{"a", "b1", "b2", "c"}));
  EXPECT_EQ(expand_hostlist("a,,b,"), (Names{"a", "b"}));
}

TEST(Hostlist, OrderAndDuplicatesAreKept) {
  EXPECT_EQ(expand_hostlist("node[0,3-4,8],linux,linux[2,5],node[4,12,15]"),
            (Names{"node0", "node3", "node4", "node8", "linux", "linux2", "linux5", "node4", "node12", "node15"}));
  EXPECT_EQ(expand_hostlist("n[2,1,2]"), (Names{"n2", "n1", "n2"}));
}

// Slurm makes the last bracket the fastest, then the first, then the second.
TEST(Hostlist, SeveralBracketsAreCombinedInTheOrderOfSlurm) {
  EXPECT_EQ(expand_hostlist("r[1-2]n[3-4]"), (Names{"r1n3", "r1n4", "r2n3", "r2n4"}));
  const Names hosts = expand_hostlist("x[000-002]y[1,3]z");
  EXPECT_EQ(hosts, (Names{"x000y1z", "x000y3z", "x001y1z", "x001y3z", "x002y1z", "x002y3z"}));
  EXPECT_EQ(expand_hostlist("a[1-2]b[3-4]c[5-6]"),
            (Names{"a1b3c5", "a1b3c6", "a2b3c5", "a2b3c6", "a1b4c5", "a1b4c6", "a2b4c5", "a2b4c6"}));
  const Names four = expand_hostlist("[1-2][3-4][5-6][7-8]");
  EXPECT_EQ((Names{four[0], four[1], four[2], four[4], four[8]}), (Names{"1357", "1358", "2357", "1457", "1367"}));
}

TEST(Hostlist, FaultsAreNamedWithTheirPlace) {
  expect_hostlist_fault("n[3-1]", 3, "the range 3-1 runs backwards");
  expect_hostlist_fault("n[1", 2, "never closed");
  expect_hostlist_fault("n[]", 3, "a number is expected");
  expect_hostlist_fault("n[1--2]", 5, "a number is expected");
  expect_hostlist_fault("n[-2]", 3, "a number is expected");
  expect_hostlist_fault("n[1-]", 5, "a number is expected");
  expect_hostlist_fault("n[1,]", 5, "a number is expected");
  expect_hostlist_fault("n[1 ,2]", 4, "',', '-' or ']' is expected");
  expect_hostlist_fault("n[1[2]]", 4, "',', '-' or ']' is expected");
  expect_hostlist_fault("n1],n2", 3, "no name of a host");
  expect_hostlist_fault("n1,(null)", 4, "no name of a host");
  expect_hostlist_fault("bgl[000x133]", 8, "boxes");
  expect_hostlist_fault("ok,n[1-2]x[9-8]", 12, "backwards");
}

TEST(Hostlist, LimitsAreErrorsBeforeMemoryIsTaken) {
  expect_hostlist_fault("n[0-999999999].b[0-9]", 3, "more than 262144 hosts");
  expect_hostlist_fault("n[0-999].b[0-999]", 1, "more than 262144 hosts");
  expect_hostlist_fault("a,n[0-262143]", 3, "more than 262144 hosts");
  expect_hostlist_fault("n[0-200000,0-200000]", 12, "more than 262144 hosts");
  expect_hostlist_fault("n[0-99999999999999999999]", 5, "more than 18 digits");
  std::string brackets = "n";
  for (int i = 0; i < 1000; ++i) brackets += "[0-262143]";
  expect_hostlist_fault(brackets, 1, "more than 262144 hosts");
  expect_hostlist_fault(std::string(300, 'n'), 1, "a name of more than 255 characters");
  EXPECT_EQ(expand_hostlist("n[0-262143]").size(), kMaxHosts);
}

TEST(Hostlist, LongAndBinaryTextsAreShownInPart) {
  std::string names;
  for (int i = 0; i < 100; ++i) names += "node,";
  const std::string what = fault_of([&] { expand_hostlist(names + "n[x" + names); });
  EXPECT_TRUE(what.starts_with("character 503 of '...")) << what;
  EXPECT_NE(what.find("node,n[xnode"), std::string::npos) << what;
  EXPECT_LT(what.size(), 160u) << what;
  EXPECT_EQ(fault_of([] { expand_hostlist("n\x01"); }), "character 2 of 'n?': no name of a host has this character");
}

TEST(Compression, IsWhatSlurmPrints) {
  EXPECT_EQ(compress_hostlist({}), "");
  EXPECT_EQ(compress_hostlist({"n1"}), "n1");
  EXPECT_EQ(compress_hostlist({"n1", "n2", "n3", "n5"}), "n[1-3,5]");
  EXPECT_EQ(compress_hostlist({"n08", "n10", "n11", "n12"}), "n[08,10-12]");
  EXPECT_EQ(compress_hostlist({"n9", "n10"}), "n[9-10]");
  EXPECT_EQ(compress_hostlist({"n09", "n10", "n9"}), "n[09-10,9]");
  EXPECT_EQ(compress_hostlist({"a1", "b1", "b2", "c"}), "a1,b[1-2],c");
  EXPECT_EQ(compress_hostlist({"n2", "n1", "n2"}), "n[2,1-2]");
  EXPECT_EQ(compress_hostlist({"n1-ib", "n2-ib"}), "n1-ib,n2-ib");
}

TEST(Compression, NamesThatNoListHolds) {
  for (const char* name : {"", "a,b", "a b", "n[1]", "n\n"})
    EXPECT_NE(fault_of([&] {
                compress_hostlist({"n1", name});
              }).find("is no name of a host"),
              std::string::npos)
        << name;
}

Names random_names(std::mt19937& random) {
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  const Names prefixes{"n", "node-", "gpu0", "r1n", "", "x99999999999999999"};
  Names names;
  for (int runs = draw(8); runs > 0; --runs) {
    const std::string prefix = prefixes[static_cast<std::size_t>(draw(6))];
    const std::string suffix = draw(6) == 0 ? "-ib" : "";
    const int width = 1 + draw(4), step = 1 + draw(2) * draw(3);
    int number = draw(120);
    for (int length = 1 + draw(15); length > 0; --length, number += step)
      names.push_back(fmt::format("{}{:0{}}{}", prefix, number, width, suffix));
  }
  return names;
}

TEST(Compression, ExpandsToWhatItWasMadeOf) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const Names names = random_names(random);
    const std::string text = compress_hostlist(names);
    ASSERT_EQ(expand_hostlist(text), names) << text;
    ASSERT_EQ(compress_hostlist(expand_hostlist(text)), text);
  }
}

TEST(Counts, RunLengths) {
  EXPECT_EQ(expand_counts("4(x2),3"), (std::vector<int>{4, 4, 3}));
  EXPECT_EQ(expand_counts("1"), std::vector<int>{1});
  EXPECT_EQ(expand_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(expand_counts("1(x2)"), (std::vector<int>{1, 1}));
  EXPECT_EQ(expand_counts("2147483647"), std::vector<int>{2147483647});
  EXPECT_EQ(expand_counts("1(x262144)").size(), kMaxHosts);
}

TEST(Counts, FaultsAreNamedWithTheirPlace) {
  expect_counts_fault("4(x)", 4, "a number is expected");
  expect_counts_fault("(x2)", 1, "a number is expected");
  expect_counts_fault("4x2", 2, "',' or '(x' is expected");
  expect_counts_fault("", 1, "a number is expected");
  expect_counts_fault("4,", 3, "a number is expected");
  expect_counts_fault("4(2)", 3, "'x' is expected");
  expect_counts_fault("4(x2", 5, "')' is expected");
  expect_counts_fault("4(x0)", 4, "repeated 0 times");
  expect_counts_fault("-4", 1, "a number is expected");
  expect_counts_fault("2147483648", 1, "too large");
  expect_counts_fault("1(x262145)", 4, "more than 262144 numbers");
  expect_counts_fault("1(x262144),1", 12, "more than 262144 numbers");
}

TEST(ReadEnvironment, NamesAndValues) {
  const char* const block[] = {"A=1", "B=x=y", "C=", "no value", "A=2", nullptr};
  EXPECT_EQ(read_environment(block), (Variables{{"A", "1"}, {"B", "x=y"}, {"C", ""}}));
  EXPECT_EQ(read_environment(nullptr), Variables{});
}

}  // namespace
}  // namespace shoal::launch
