// Slurm's own `scontrol show hostnames` and `show hostlist`, on lists that are drawn by a fixed seed. They need the
// client programs of Slurm and a slurm.conf, which is made here, but no daemon.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "core/error.h"
#include "launch/hostlist.h"

namespace shoal::launch {
namespace {

struct Answer {
  bool accepted = false;
  std::vector<std::string> lines;
};

// Lists have no character that the shell sees within single quotes.
Answer ask_slurm(const std::string& what, const std::string& list) {
  const std::string command = "timeout 20 scontrol show " + what + " '" + list + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string text;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) text += static_cast<char>(c);
  pclose(pipe);  // scontrol exits with 0 either way
  Answer answer{.accepted = text.find("nvalid") == text.npos, .lines = {}};
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) answer.lines.push_back(line);
  return answer;
}

class HostlistOracle : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v scontrol >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "there is no scontrol: apt-get install slurm-client";
    std::string name = (std::filesystem::temp_directory_path() / "shoal-oracle-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    const auto file = folder_ / "slurm.conf";
    std::ofstream(file) << "ClusterName=oracle\nSlurmctldHost=localhost\nNodeName=localhost CPUs=1\n"
                           "PartitionName=all Nodes=ALL\n";
    setenv("SLURM_CONF", file.c_str(), 1);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  std::string ranges() {
    std::string text;
    for (int count = 1 + below(3); count > 0; --count) {
      const int low = below(120), width = 1 + below(4);
      text += fmt::format("{}{:0{}}", text.empty() ? "" : ",", low, width);
      if (below(2) == 0) text += fmt::format("-{:0{}}", low + below(12), width);
    }
    return text;
  }

  // Names after the last bracket are left out: Slurm takes them in newer versions only.
  std::string item() {
    static constexpr const char* kTexts[] = {"n", "node-", "gpu0", "r1c", "a.b", "x"};
    std::string text = kTexts[below(6)];
    const int brackets = below(4);
    for (int i = 0; i < brackets; ++i) text += fmt::format("{}[{}]", i > 0 ? kTexts[below(6)] : "", ranges());
    return text;
  }

  std::string list() {
    static constexpr const char* kSeparators[] = {",", ",", " ", ",,"};
    std::string text = item();
    for (int more = below(4); more > 0; --more) text += kSeparators[below(4)] + item();
    return text;
  }

  std::filesystem::path folder_;
  std::mt19937 random_{20};
};

TEST_F(HostlistOracle, ListsAreExpandedAsSlurmDoes) {
  std::size_t hosts = 0;
  for (int i = 0; i < 120; ++i) {
    const std::string text = list();
    const Answer slurm = ask_slurm("hostnames", text);
    ASSERT_TRUE(slurm.accepted) << text << ": " << slurm.lines.at(0);
    ASSERT_EQ(expand_hostlist(text), slurm.lines) << text;
    hosts += slurm.lines.size();
  }
  EXPECT_GT(hosts, 1000u) << "the lists were too small to show anything";
}

TEST_F(HostlistOracle, CompressedListsMeanTheSameToSlurm) {
  for (int i = 0; i < 40; ++i) {
    const auto names = expand_hostlist(list());
    EXPECT_EQ(ask_slurm("hostnames", compress_hostlist(names)).lines, names);
  }
  EXPECT_EQ(ask_slurm("hostlist", "n1,n2,n3,n5,m08,m09,m10").lines.at(0),
            compress_hostlist({"n1", "n2", "n3", "n5", "m08", "m09", "m10"}));
}

TEST_F(HostlistOracle, WhatSlurmRefusesIsRefused) {
  for (const char* text : {"n[3-1]", "n[]", "n[1--2]", "a[1,]", "n[01 ,2]", "bgl[000x133]", "n[0-999999999].b[0-9]"}) {
    EXPECT_FALSE(ask_slurm("hostnames", text).accepted) << text;
    EXPECT_THROW(expand_hostlist(text), OptionError) << text;
  }
}

}  // namespace
}  // namespace shoal::launch
