// Links, clocks, limits, variables: from measurements to verdicts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "preflight/clocks.h"
#include "preflight/environment.h"
#include "preflight/limits.h"
#include "preflight/links.h"

namespace shoal::preflight {
namespace {

// All pairs of `hosts` hosts, at 10 GB/s and 2 us.
LinkTable table_of(int hosts) {
  LinkTable table{.between_nodes = true};
  for (int i = 0; i < hosts; ++i) table.endpoints.push_back({2 * i, fmt::format("n{}", i)});
  for (const auto& round : link_rounds(hosts))
    for (const auto& [a, b] : round) table.links.push_back({a, b, true, 2, 10});
  return table;
}

void slow_down(LinkTable& table, int host, double factor) {
  for (Link& link : table.links)
    if (link.a == host || link.b == host) link.gigabytes_per_second *= factor, link.latency_us /= factor;
}

TEST(LinkRounds, EachPairOnceAndNobodyTwiceInARound) {
  for (int hosts = 0; hosts <= 16; ++hosts) {
    std::set<std::pair<int, int>> pairs;
    for (const auto& round : link_rounds(hosts)) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << hosts;
        EXPECT_TRUE(pairs.insert(std::minmax(a, b)).second) << hosts;
      }
    }
    EXPECT_EQ(pairs.size(), static_cast<std::size_t>(hosts * (hosts - 1) / 2));
  }
  EXPECT_EQ(link_rounds(16).size(), 15u);
}

TEST(LinkRounds, OfManyHostsEachHasFourLinks) {
  for (const int hosts : {17, 100, 1001}) {
    std::vector<int> links(static_cast<std::size_t>(hosts));
    const LinkRounds rounds = link_rounds(hosts);
    for (const auto& round : rounds)
      for (const auto& [a, b] : round) ++links[static_cast<std::size_t>(a)], ++links[static_cast<std::size_t>(b)];
    EXPECT_EQ(links, std::vector<int>(static_cast<std::size_t>(hosts), 4));
    EXPECT_LE(rounds.size(), 7u) << "the time must not grow with the job";
  }
}

TEST(Bandwidth, AllAlikeIsWell) {
  const CheckResult check = judge_bandwidth(table_of(4));
  EXPECT_EQ(worst_of(check), Verdict::ok);
  EXPECT_EQ(check.summary, "10 GB/s median, 10 … 10, 6 pairs of 4 nodes");
}

TEST(Bandwidth, ASlowHostIsNamedAndItsPartnersAreNot) {
  for (const int hosts : {3, 4, 8, 40}) {
    LinkTable table = table_of(hosts);
    slow_down(table, 1, 0.4);
    const CheckResult check = judge_bandwidth(table);
    for (const Record& record : check.records)
      EXPECT_EQ(record.verdict, record.host == "n1" ? Verdict::fail : Verdict::ok) << hosts << record.host;
    EXPECT_EQ(check.records[1].found, "its best link has 4 GB/s, the median of all hosts is 10");
    EXPECT_EQ(check.records[1].code, ExitCode::communication);
  }
}

TEST(Bandwidth, HalfOfTheMedianIsEnough) {
  LinkTable table = table_of(8);
  slow_down(table, 1, 0.5);
  EXPECT_EQ(worst_of(judge_bandwidth(table)), Verdict::ok);
}

TEST(Bandwidth, ASlowPairIsAWarning) {
  LinkTable table = table_of(4);
  table.links[0].gigabytes_per_second = 1;
  const auto& pair = table.links[0];
  const CheckResult check = judge_bandwidth(table);
  const Record& record = check.records[static_cast<std::size_t>(pair.a)];
  EXPECT_EQ(record.verdict, Verdict::warn);
  EXPECT_EQ(record.found, fmt::format("1 GB/s to n{}, the median of all pairs is 10", pair.b));
}

TEST(Bandwidth, AHostThatDoesNotAnswerFails) {
  LinkTable table = table_of(4);
  for (Link& link : table.links)
    if (link.a == 2 || link.b == 2) link = {link.a, link.b, false, 0, 0};
  const CheckResult check = judge_bandwidth(table);
  for (const Record& record : check.records)
    EXPECT_EQ(record.verdict, record.host == "n2" ? Verdict::fail : Verdict::ok) << record.host << record.found;
}

TEST(Bandwidth, NothingIsJudgedWithinANode) {
  LinkTable table = table_of(4);
  slow_down(table, 1, 0.01);
  table.between_nodes = false;
  EXPECT_EQ(worst_of(judge_bandwidth(table)), Verdict::ok);
  EXPECT_EQ(worst_of(judge_latency(table)), Verdict::ok);
  EXPECT_EQ(worst_of(judge_bandwidth(table_of(1))), Verdict::skipped);
}

TEST(Latency, AHostFarAwayIsAWarning) {
  LinkTable table = table_of(6);
  slow_down(table, 5, 0.2);  // 10 us
  const CheckResult check = judge_latency(table);
  for (const Record& record : check.records)
    EXPECT_EQ(record.verdict, record.host == "n5" ? Verdict::warn : Verdict::ok) << record.host;
  EXPECT_EQ(check.records[5].found, "at best 10 us, the median of all hosts is 2");
}

TEST(Clocks, TheOddOneIsNamedEvenIfItIsRank0) {
  std::vector<ClockReading> readings;
  for (int i = 0; i < 4; ++i) readings.push_back({i, fmt::format("n{}", i), true, i == 0 ? 0.0 : 30.0, 1e-5});
  CheckResult check = judge_clocks(readings);
  EXPECT_EQ(check.records[0].verdict, Verdict::warn);
  EXPECT_EQ(check.records[0].found, "its clock is 30.0 s behind those of the others");
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(check.records[i].verdict, Verdict::ok);
  EXPECT_EQ(check.summary, "30 s at most from the median of 4 nodes");
  readings[0].offset_s = 29.5;
  EXPECT_EQ(worst_of(judge_clocks(readings)), Verdict::ok);
  readings[0] = {0, "n0", true, 28, 1.5};
  EXPECT_EQ(worst_of(judge_clocks(readings)), Verdict::ok) << "within what the slow message leaves open";
  readings[0].answered = false;
  EXPECT_EQ(worst_of(judge_clocks(readings)), Verdict::fail);
}

TEST(Limits, OpenFiles) {
  EXPECT_EQ(judge_open_files({.open_files = 4096}).verdict, Verdict::ok);
  EXPECT_EQ(judge_open_files({}).found, "unlimited");
  const Record few = judge_open_files({.open_files = 1024});
  EXPECT_EQ(few.verdict, Verdict::warn);
  EXPECT_EQ(few.found, "ulimit -n is 1024");
  EXPECT_NE(few.advice.find("ulimit -n 65536"), std::string::npos);
  EXPECT_EQ(judge_open_files({.open_files = 200}).verdict, Verdict::fail);
}

TEST(Limits, LockedMemoryMattersWithInfiniband) {
  EXPECT_EQ(judge_locked_memory({.locked_memory = 65536}).verdict, Verdict::ok);
  const Record little = judge_locked_memory({.locked_memory = 65536, .has_infiniband = true});
  EXPECT_EQ(little.verdict, Verdict::fail);
  EXPECT_EQ(little.found, "ulimit -l is 64 KiB");
  EXPECT_EQ(judge_locked_memory({.has_infiniband = true}).verdict, Verdict::ok);
}

TEST(Limits, AnUnlimitedStackIsTheTrapOfOldNccl) {
  EXPECT_EQ(judge_stack({.stack = 8 << 20, .nccl_version = 22304}).verdict, Verdict::ok);
  EXPECT_EQ(judge_stack({.nccl_version = 22304}).verdict, Verdict::warn);
  EXPECT_NE(judge_stack({.nccl_version = 22304}).advice.find("ulimit -s 8192"), std::string::npos);
  EXPECT_EQ(judge_stack({.nccl_version = 22809}).verdict, Verdict::ok);
  EXPECT_EQ(judge_stack({}).verdict, Verdict::ok) << "no NCCL";
}

TEST(Limits, SharedMemoryByRanks) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto verdict = [](std::uint64_t free, int ranks) {
    return judge_shared_memory({.shared_memory_free = free, .has_shared_memory = true, .local_size = ranks}).verdict;
  };
  EXPECT_EQ(verdict(256 * kMiB, 1), Verdict::ok);
  EXPECT_EQ(verdict(256 * kMiB, 2), Verdict::warn);
  EXPECT_EQ(verdict(256 * kMiB, 8), Verdict::fail);
  EXPECT_EQ(judge_shared_memory({}).found, "there is no /dev/shm");
}

TEST(Limits, FileSize) {
  EXPECT_EQ(judge_file_size({}, 0).verdict, Verdict::ok);
  EXPECT_EQ(judge_file_size({.file_size = 1 << 20}, 0).verdict, Verdict::warn);
  EXPECT_EQ(judge_file_size({.file_size = 1 << 20}, 1 << 20).verdict, Verdict::ok);
  EXPECT_EQ(judge_file_size({.file_size = 1 << 20}, (1 << 20) + 1).verdict, Verdict::fail);
}

TEST(Variables, ThoseThatHurtAreNamedWithTheirValue) {
  EXPECT_TRUE(judge_variables({{"MPICH_GPU_SUPPORT_ENABLED", "0"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}).empty());
  const auto records = judge_variables(
      {{"MPICH_GPU_SUPPORT_ENABLED", "1"}, {"NCCL_P2P_DISABLE", "1"}, {"CUDA_VISIBLE_DEVICES", "2,3,2"}});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].found, "MPICH_GPU_SUPPORT_ENABLED=1");
  EXPECT_EQ(records[1].found, "NCCL_P2P_DISABLE=1");
  EXPECT_EQ(records[2].found, "CUDA_VISIBLE_DEVICES=2,3,2 names 2 twice");
  for (const Record& record : records) EXPECT_EQ(record.verdict, Verdict::warn);
}

TEST(Variables, RanksThatDifferFromMostAreNamed) {
  const launch::Variables usual{{"NCCL_SOCKET_IFNAME", "ib0"}};
  const std::vector<std::string> hosts{"n1", "n1", "n2", "n3"};
  EXPECT_TRUE(judge_differences({usual, usual, usual, usual}, hosts).empty());
  auto records = judge_differences({usual, usual, {}, {{"NCCL_SOCKET_IFNAME", "eth0"}}}, hosts);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].host, "n2");
  EXPECT_EQ(records[0].found, "NCCL_SOCKET_IFNAME is '', most ranks have 'ib0'");
  EXPECT_EQ(records[1].rank, 3);
  records = judge_differences({{}, {}, {}, {{"FI_PROVIDER", "tcp"}}}, hosts);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].found, "FI_PROVIDER is 'tcp', most ranks have ''");
}

TEST(Variables, TransportAlone) {
  const auto found =
      transport_variables({{"NCCL_DEBUG", "INFO"}, {"PATH", "/bin"}, {"UCX_TLS", "rc"}, {"MY_NCCL_X", "1"}});
  EXPECT_EQ(found, (launch::Variables{{"NCCL_DEBUG", "INFO"}, {"UCX_TLS", "rc"}}));
}

}  // namespace
}  // namespace shoal::preflight
