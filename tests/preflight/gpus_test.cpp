#include "preflight/gpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "preflight/gpu_bus.h"
#include "preflight/placement.h"

namespace shoal::preflight {
namespace {

GpuState healthy() {
  return {.uuid = "GPU-1",
          .pci = "00000000:1B:00.0",
          .name = "H100",
          .driver = "580.1",
          .ecc_uncorrected = 0,
          .temperature = 40,
          .slow_temperature = 87,
          .used_bytes = 5e8,
          .total_bytes = 8e10};
}

struct Case {
  const char* name;
  void (*spoil)(GpuState&);
  Verdict verdict;
  const char* found;
};

TEST(Gpu, IsJudgedByEachOfItsTroubles) {
  const Case cases[] = {
      {"well", [](GpuState&) {}, Verdict::ok, "H100 (00000000:1B:00.0)"},
      {"ecc", [](GpuState& g) { g.ecc_uncorrected = 2; }, Verdict::fail, "2 uncorrected memory errors (ECC)"},
      {"no ecc", [](GpuState& g) { g.ecc_uncorrected.reset(); }, Verdict::ok, ""},
      {"remap", [](GpuState& g) { g.remap_failed = true; }, Verdict::fail, "has no spare"},
      {"pending", [](GpuState& g) { g.retirement_pending = true; }, Verdict::warn, "waits to be replaced"},
      {"xid 79",
       [](GpuState& g) {
         g.xids = {79, 13};
       },
       Verdict::fail, "Xid 13, 79 since boot"},
      {"xid 31", [](GpuState& g) { g.xids = {31}; }, Verdict::warn, "Xid 31 since boot"},
      {"hot", [](GpuState& g) { g.slow_reasons = kHardwareThermal | kHardwareSlowdown; }, Verdict::fail, "it is hot"},
      {"brake", [](GpuState& g) { g.slow_reasons = kPowerBrake; }, Verdict::fail, "by the power supply"},
      {"slow", [](GpuState& g) { g.slow_reasons = kHardwareSlowdown; }, Verdict::fail, "by the hardware"},
      {"warm", [](GpuState& g) { g.temperature = 83; }, Verdict::warn, "83 °C idle, it slows down at 87"},
      {"used",
       [](GpuState& g) {
         g.used_bytes = 3.0 * (1 << 30);
         g.processes = 1;
       },
       Verdict::warn, "3.0 of 74.5 GiB are in use by 1 other processes"},
  };
  for (const Case& c : cases) {
    GpuState gpu = healthy();
    c.spoil(gpu);
    const Record record = judge_gpu(gpu);
    EXPECT_EQ(record.verdict, c.verdict) << c.name;
    EXPECT_NE(record.found.find(c.found), std::string::npos) << c.name << ": " << record.found;
    EXPECT_EQ(record.advice.empty(), c.verdict == Verdict::ok) << c.name;
    EXPECT_EQ(record.code, ExitCode::device);
  }
}

TEST(Gpu, XidsOfTheKernelsLog) {
  const std::string log =
      "4,1,2,-;NVRM: loading\n"
      "4,2,3,-;NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
      "4,3,4,-;NVRM: Xid (PCI:0000:3d:00): 31, pid=1234, name=train\n"
      "4,4,5,-;NVRM: Xid (PCI:0000:1b:00): 45\n"
      "4,5,6,-;NVRM: Xid (PCI:0000:1b:00";
  EXPECT_EQ(xids_in(log, "00000000:1B:00.0"), (std::vector<int>{79, 45}));
  EXPECT_EQ(xids_in(log, "00000000:3D:00.0"), std::vector<int>{31});
  EXPECT_TRUE(xids_in(log, "00000001:1B:00.0").empty());
  EXPECT_TRUE(xids_in("", "00000000:1B:00.0").empty());
}

TEST(Gpu, DriversThatDiffer) {
  const std::vector<std::string> hosts{"n1", "n2", "n3", "n4"};
  EXPECT_TRUE(judge_drivers({"1", "1", "", "1"}, hosts).empty());
  const auto records = judge_drivers({"1", "2", "", "1"}, hosts);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].host, "n2");
  EXPECT_EQ(records[0].found, "driver 2, most nodes have 1");
}

TEST(GpuBus, BandwidthAsNcclTestsCountIt) {
  // nccl-tests, doc/PERFORMANCE.md: algbw * 2 (n - 1) / n.
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(1e9, 0.01, 8), 100 * 2 * 7.0 / 8);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(1e9, 0.01, 2), 100);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(1e9, 0.01, 1), 0);
}

TEST(GpuBus, ASlowNodeFails) {
  const std::vector<std::string> hosts{"n1", "n1", "n2", "n2", "n3", "n3"};
  const CheckResult check = judge_node_bus({{300}, {300}, {140}, {140}, {310}, {310}}, hosts);
  for (const Record& record : check.records)
    EXPECT_EQ(record.verdict, record.host == "n2" ? Verdict::fail : Verdict::ok);
  EXPECT_EQ(check.records[2].found, "140 GB/s among its GPUs, the median is 300");
  EXPECT_EQ(worst_of(judge_node_bus({{}, {}}, {"n1", "n2"})), Verdict::skipped);
}

TEST(GpuBus, AWrongSumFails) {
  const CheckResult check =
      judge_job_bus({{.node = 0, .job = 40}, {.node = 0, .job = 40, .wrong_sum = true}}, {"a", "b"});
  EXPECT_EQ(check.records[0].verdict, Verdict::ok);
  EXPECT_EQ(check.records[1].verdict, Verdict::fail);
  EXPECT_EQ(check.records[1].found, "a sum over the GPUs is wrong");
}

launch::RankPlace place_of(int rank, int local_size, int gpus) {
  launch::RankPlace place{.rank = rank, .local_rank = rank, .local_size = local_size, .host = "n1"};
  for (int i = 0; i < gpus; ++i) place.visible.push_back({fmt::format("0000:0{}:00.0", i), "", {}});
  return place;
}

TEST(Placement, MoreRanksThanGpusIsAFailureOfAllAndBlamesNoHost) {
  std::vector<launch::RankPlace> places{place_of(0, 2, 2), place_of(1, 2, 2)};
  for (const Record& record : judge_places(places)) EXPECT_NE(record.verdict, Verdict::fail) << record.found;
  EXPECT_EQ(places[1].gpu, 1);
  places = {place_of(0, 3, 2), place_of(1, 3, 2), place_of(2, 3, 2)};
  const auto records = judge_places(places);
  ASSERT_EQ(records.size(), 3u);
  for (const Record& record : records) {
    EXPECT_EQ(record.verdict, Verdict::fail);
    EXPECT_EQ(record.code, ExitCode::device);
    EXPECT_NE(record.found.find("n1"), std::string::npos) << record.found;
  }
}

}  // namespace
}  // namespace shoal::preflight
