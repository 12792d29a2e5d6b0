#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/error.h"
#include "launch/gpu_choice.h"
#include "launch/rank_place.h"

namespace shoal::launch {
namespace {

using Numbers = std::vector<int>;

Numbers range(int first, int count) {
  Numbers numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// Computers with two nodes of memory, eight CPUs and two GPUs next to each.
GpuPlace gpu(int number) {
  return {fmt::format("0000:{:02x}:00.0", 16 * (number + 1)), fmt::format("GPU-{}", number), {number / 2}};
}
CpuPlace cpus(const Numbers& numbers) {
  CpuPlace place{.cpus = numbers, .numa = {}, .cores = static_cast<int>(numbers.size()), .machine_cpus = 16};
  for (const int node : {0, 1})
    if (std::ranges::any_of(numbers, [&](int cpu) { return cpu / 8 == node; })) place.numa.push_back(node);
  return place;
}

// `ranks` ranks on each of `nodes` nodes with all CPUs and the given GPUs.
std::vector<RankPlace> job(int nodes, int ranks, const Numbers& gpus = {}) {
  std::vector<RankPlace> places;
  for (int i = 0; i < nodes * ranks; ++i) {
    RankPlace place{.rank = i, .node = i / ranks, .local_rank = i % ranks, .local_size = ranks};
    place.host = fmt::format("n{}", place.node + 1);
    place.cpus = cpus(range(0, 16));
    for (const int number : gpus) place.visible.push_back(gpu(number));
    places.push_back(place);
  }
  return places;
}

Numbers chosen(std::vector<RankPlace> places) {
  choose_gpus(places);
  Numbers gpus;
  for (const RankPlace& place : places) gpus.push_back(place.gpu);
  return gpus;
}

TEST(GpuChoice, NoneIsNone) { EXPECT_EQ(chosen(job(1, 2)), (Numbers{-1, -1})); }

TEST(GpuChoice, TheOnlyOneIsTaken) {
  auto places = job(2, 2);
  for (RankPlace& place : places) place.visible = {gpu(place.local_rank)};
  EXPECT_EQ(chosen(places), (Numbers{0, 0, 0, 0}));
}

TEST(GpuChoice, AsManyAsRanksGoByLocalNumbers) {
  EXPECT_EQ(chosen(job(2, 4, {0, 1, 2, 3})), (Numbers{0, 1, 2, 3, 0, 1, 2, 3}));
  // Whatever their CPUs are.
  auto places = job(1, 2, {0, 3});
  for (RankPlace& place : places) place.cpus = cpus(range(0, 8));
  EXPECT_EQ(chosen(places), (Numbers{0, 1}));
}

TEST(GpuChoice, UnevenNodesAreChosenOnTheirOwn) {
  auto places = job(1, 2, {0, 1});
  auto alone = job(1, 1, {0, 1})[0];
  alone.rank = 2, alone.node = 1, alone.cpus = cpus(range(8, 8));
  places.push_back(alone);
  EXPECT_EQ(chosen(places), (Numbers{0, 1, 0}));
}

TEST(GpuChoice, OfMoreTheNearestIsTaken) {
  auto places = job(1, 2, {0, 1, 2, 3});
  places[0].cpus = cpus(range(8, 4));  // the ranks' order is not that of the GPUs
  places[1].cpus = cpus(range(0, 4));
  EXPECT_EQ(chosen(places), (Numbers{2, 0}));
  places[1].cpus = cpus(range(12, 4));
  EXPECT_EQ(chosen(places), (Numbers{2, 3}));
}

TEST(GpuChoice, WhereNoneIsNearAnyIsTaken) {
  auto places = job(1, 3, {0, 1, 2, 3});
  for (RankPlace& place : places) place.cpus = cpus(range(0, 8));
  EXPECT_EQ(chosen(places), (Numbers{0, 1, 2}));
  for (RankPlace& place : places)
    for (GpuPlace& one : place.visible) one.numa.clear();  // hwloc does not know
  EXPECT_EQ(chosen(places), (Numbers{0, 1, 2}));
}

TEST(GpuChoice, RanksThatSeeDifferentGpusNeverMeet) {
  // --gpu-bind=closest: each sees the two that are next to it.
  auto places = job(1, 4);
  for (RankPlace& place : places) {
    const int socket = place.local_rank / 2;
    place.cpus = cpus(range(8 * socket, 8));
    place.visible = {gpu(2 * socket), gpu(2 * socket + 1)};
  }
  EXPECT_EQ(chosen(places), (Numbers{0, 1, 0, 1}));
  // Rank 0 would take the only GPU of rank 1.
  places = job(1, 2, {0, 1});
  places[1].visible = {gpu(0)};
  EXPECT_EQ(chosen(places), (Numbers{1, 0}));
}

TEST(GpuChoice, MoreRanksThanGpusAreAnErrorWithTheFlag) {
  try {
    chosen(job(1, 3, {0, 1}));
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    const std::string what = error.what();
    for (const char* words : {"ranks 0-2 on host n1 are 3, but see 2 GPUs", "--ntasks-per-node=2", "--gpus-per-task"})
      EXPECT_NE(what.find(words), std::string::npos) << what;
  }
}

TEST(RankPlace, GoesThroughTextAndBack) {
  auto places = job(1, 2, {0, 3});
  choose_gpus(places);
  RankPlace& mine = places[1];
  mine.cpus_per_task = 4;
  mine.gpus_of_slurm = 2;
  mine.cpu_bind = "quiet,mask_cpu:\"0x3\xff\"";
  const RankPlace back = parse_rank_place(to_text(mine));
  EXPECT_EQ(to_text(back), to_text(mine));
  EXPECT_EQ(back.visible.at(1).uuid, "GPU-3");
  EXPECT_EQ(back.visible.at(1).numa, Numbers{1});
  EXPECT_EQ(back.gpu, 1);
  EXPECT_EQ(back.cpus.machine_cpus, 16);
  EXPECT_EQ(back.cpus_per_task, 4);
  EXPECT_EQ(back.gpus_of_slurm, 2);
  EXPECT_THROW(parse_rank_place("{}"), InternalError);
  EXPECT_THROW(parse_rank_place("no JSON"), InternalError);
}

TEST(PlacementJson, HasEveryRank) {
  auto places = job(2, 2, {0, 1});
  choose_gpus(places);
  const auto all = nlohmann::json::parse(placement_json(places, "41"));
  EXPECT_EQ(all.at("job"), "41");
  ASSERT_EQ(all.at("ranks").size(), 4u);
  EXPECT_EQ(all.at("ranks")[3].at("host"), "n2");
  EXPECT_EQ(all.at("ranks")[3].at("gpu").at("uuid"), "GPU-1");
  EXPECT_EQ(all.at("ranks")[3].at("gpu").at("device"), 1);
  EXPECT_EQ(all.at("ranks")[3].at("cpus"), "0-15");
  EXPECT_TRUE(nlohmann::json::parse(placement_json(job(1, 1), "")).at("ranks")[0].at("gpu").is_null());
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(PlacementTable, EqualRanksAndNodesShareARow) {
  EXPECT_EQ(joined(placement_table(job(2, 2))),
            "placement: 4 ranks on 2 nodes\n"
            "  ranks  hosts             local  GPU  NUMA  CPUs\n"
            "  0-3    n[1-2] (2 nodes)  0-1    -    0-1   all 16\n");
  EXPECT_EQ(joined(placement_table(job(1, 1))),
            "placement: 1 rank on 1 node\n"
            "  ranks  hosts  local  GPU  NUMA  CPUs\n"
            "  0      n1     0      -    0-1   all 16\n");
}

TEST(PlacementTable, GpusAndUnevenNodes) {
  auto places = job(3, 2, {0, 3});
  choose_gpus(places);
  for (RankPlace& place : places) place.cpus = cpus(range(8 * place.local_rank, 8));
  places.pop_back();
  places[4].cpus = cpus(range(8, 8));  // away from its GPU
  EXPECT_EQ(joined(placement_table(places)),
            "placement: 5 ranks on 3 nodes\n"
            "  ranks  hosts             local  GPU             NUMA       CPUs\n"
            "  0,2    n[1-2] (2 nodes)  0      0 0000:10:00.0  0          0-7\n"
            "  1,3    n[1-2] (2 nodes)  1      1 0000:40:00.0  1          8-15\n"
            "  4      n3                0      0 0000:10:00.0  1 (GPU 0)  8-15\n");
}

TEST(PlacementTable, StaysShortForManyRanks) {
  auto places = job(128, 8);
  for (RankPlace& place : places) place.cpus = cpus({place.local_rank});
  auto lines = placement_table(places);
  EXPECT_EQ(lines.size(), 10u) << joined(lines);
  EXPECT_NE(lines[2].find("0,8,...,1016 (128)"), std::string::npos) << lines[2];
  EXPECT_NE(lines[2].find("n[1-128] (128 nodes)"), std::string::npos) << lines[2];
  for (RankPlace& place : places) place.cpus = cpus({place.rank});  // no two alike
  lines = placement_table(places, 24);
  EXPECT_EQ(lines.size(), 27u);
  EXPECT_EQ(lines.back(), "  and 1000 rows more");
  for (const std::string& line : lines) EXPECT_LT(line.size(), 110u) << line;
}

TEST(PlacementTable, HostsOfOneNameAndOddNames) {
  auto places = job(2, 1);
  for (RankPlace& place : places) place.host = "localhost";
  EXPECT_NE(joined(placement_table(places)).find("localhost (2 nodes)"), std::string::npos);
  places[0].host = "(none)";
  EXPECT_NE(joined(placement_table(places)).find("(none),localhost (2 nodes)"), std::string::npos);
}

void expect_warning(const std::vector<RankPlace>& places, const std::vector<std::string>& words) {
  const auto warnings = placement_warnings(places);
  ASSERT_EQ(warnings.size(), 1u) << joined(warnings);
  for (const std::string& word : words) EXPECT_NE(warnings[0].find(word), std::string::npos) << warnings[0];
}

TEST(PlacementWarnings, NoneWhereAllIsWell) {
  auto places = job(2, 4, {0, 1, 2, 3});
  choose_gpus(places);
  EXPECT_EQ(joined(placement_warnings(places)), "");
  for (RankPlace& place : places) place.cpus = cpus(range(4 * place.local_rank, 4)), place.cpus_per_task = 4;
  EXPECT_EQ(joined(placement_warnings(places)), "");
  // More ranks than the whole computer has CPUs is what the user asked for.
  EXPECT_EQ(joined(placement_warnings(job(1, 20))), "");
}

TEST(PlacementWarnings, FewerCpusThanAsked) {
  auto places = job(2, 2);
  for (RankPlace& place : places) place.cpus = cpus({place.local_rank}), place.cpus_per_task = 8;
  expect_warning(places, {"ranks 0-3 (the first on host n1) may run on 1 logical CPUs (0)", "asked for 8 a task",
                          "--cpus-per-task=$SLURM_CPUS_PER_TASK"});
  places[0].cpu_bind = "quiet,mask_cpu:0x1";
  expect_warning(places, {"SLURM_CPU_BIND is quiet,mask_cpu:0x1: unset it"});
}

TEST(PlacementWarnings, AMaskThatLeakedToAllRanksOfANode) {
  auto places = job(2, 4);
  for (RankPlace& place : places)
    if (place.node == 1) place.cpus = cpus({3});
  expect_warning(places, {"ranks 4-7", "host n2", "share 1 of their node's 16 logical CPUs (3) among 4 ranks"});
  // Each has as many as it should, but they are the same ones.
  places = job(1, 4);
  for (RankPlace& place : places) place.cpus = cpus(range(0, 4)), place.cpus_per_task = 4;
  expect_warning(places, {"share 4 of their node's 16", "(0-3) among 4 ranks, which need 16"});
}

TEST(PlacementWarnings, GpusFarFromTheCpus) {
  auto places = job(1, 4, {0, 1, 2, 3});
  for (RankPlace& place : places) place.cpus = cpus(range(8 - 8 * (place.local_rank / 2), 8));
  choose_gpus(places);
  expect_warning(places, {"ranks 0-3", "next to memory 1 alone", "next to memory 0", "--gpu-bind=closest"});
}

TEST(PlacementWarnings, GpusOfSlurmThatNoRankSees) {
  auto places = job(1, 2);
  for (RankPlace& place : places) place.gpus_of_slurm = 4;
  expect_warning(places, {"ranks 0-1", "on the CPU", "4 GPUs (SLURM_GPUS_ON_NODE)", "--device cuda"});
}

}  // namespace
}  // namespace shoal::launch
