// On several ranks of this machine: gathering, measuring, a directory, a rank that does not come.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "comm/late_ranks.h"
#include "core/error.h"
#include "preflight/clocks.h"
#include "preflight/context.h"
#include "preflight/environment.h"
#include "preflight/filesystem.h"
#include "preflight/gpu_bus.h"
#include "preflight/gpus.h"
#include "preflight/limits.h"
#include "preflight/links.h"

namespace shoal::preflight {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Where this rank is on this machine; or, for the ways between nodes, as if each rank were alone on one.
launch::Placement placement(bool alone) {
  launch::Placement here;
  MPI_Comm_rank(MPI_COMM_WORLD, &here.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &here.size);
  if (alone) {
    here.node = here.rank;
    here.nodes = here.size;
  } else {
    here.local_rank = here.rank;
    here.local_size = here.size;
  }
  return here;
}

class Job : public ::testing::Test {
 protected:
  // Of rank 0's making; the same path on all ranks.
  fs::path folder() {
    std::string name;
    if (context.rank() == 0) {
      name = fs::temp_directory_path() / "preflight-XXXXXX";
      name = mkdtemp(name.data());
    }
    return context.exchange("a folder", name)[0];
  }

  Guard guard{5min};
  Context context{placement(false), guard, 4min}, nodes{placement(true), guard, 4min};
};

TEST_F(Job, KnowsTheNode) {
  EXPECT_EQ(context.first_ranks(), std::vector<int>{0});
  EXPECT_EQ(context.local_size(), context.size());
  for (int rank = 0; rank < context.size(); ++rank) EXPECT_EQ(context.node_of(rank), 0);
}

TEST_F(Job, KnowsTheNodes) {
  for (int rank = 0; rank < nodes.size(); ++rank) {
    EXPECT_EQ(nodes.node_of(rank), rank);
    EXPECT_EQ(nodes.first_ranks().at(static_cast<std::size_t>(rank)), rank);
  }
  EXPECT_EQ(nodes.local_size(), 1);
}

TEST_F(Job, MeasuresAndComparesNodes) {
  const LinkTable table = measure_links(nodes);
  EXPECT_EQ(table.between_nodes, nodes.size() > 1);
  EXPECT_EQ(table.links.size(), static_cast<std::size_t>(nodes.size() * (nodes.size() - 1) / 2));
  for (const Link& link : table.links) EXPECT_TRUE(link.answered && link.gigabytes_per_second > 0);
  EXPECT_EQ(judge_latency(table).records.size(), static_cast<std::size_t>(nodes.size()));
  const auto readings = read_clocks(nodes);
  ASSERT_EQ(readings.size(), static_cast<std::size_t>(nodes.size()));
  for (const ClockReading& reading : readings) {
    EXPECT_TRUE(reading.answered);
    EXPECT_LT(std::abs(reading.offset_s), 0.5) << "they have one clock";
  }
  EXPECT_EQ(worst_of(judge_clocks(readings)), Verdict::ok);
}

TEST_F(Job, EachNodeReadsWhatAnotherWrote) {
  const fs::path place = folder();
  for (const CheckResult& check : check_filesystem(nodes, {.directory = place, .prefix = "fs", .bytes = 1 << 20})) {
    const bool may_warn = check.name == "fs.write" || check.name == "fs.read";  // this machine may be busy
    EXPECT_LE(worst_of(check), may_warn ? Verdict::warn : Verdict::skipped) << check.name << ": " << check.summary;
  }
  context.exchange("the end", "");
  EXPECT_TRUE(fs::is_empty(place));
  context.exchange("the end", "");
  if (context.rank() == 0) fs::remove_all(place);
}

TEST_F(Job, GathersWhatRanksFindAndWhatTheyThrow) {
  const auto records = context.gather("a test", [&]() -> Record {
    if (context.rank() == context.size() - 1) throw IoError("no disk");
    return {.value = context.rank(), .unit = "x"};
  });
  ASSERT_EQ(records.size(), static_cast<std::size_t>(context.size()));
  for (int rank = 0; rank < context.size(); ++rank) {
    const Record& record = records[static_cast<std::size_t>(rank)];
    EXPECT_EQ(record.rank, rank);
    EXPECT_EQ(record.host, context.host());
    const bool last = rank == context.size() - 1;
    EXPECT_EQ(record.verdict, last ? Verdict::fail : Verdict::ok);
    if (last) {
      EXPECT_EQ(record.found, "no disk");
      EXPECT_EQ(record.code, ExitCode::io);
    } else {
      EXPECT_EQ(record.value, rank);
    }
  }
}

TEST_F(Job, MeasuresMessagesBetweenAllPairs) {
  const LinkTable table = measure_links(context);
  EXPECT_EQ(table.endpoints.size(), static_cast<std::size_t>(context.size()));
  EXPECT_EQ(table.links.size(), static_cast<std::size_t>(context.size() * (context.size() - 1) / 2));
  EXPECT_FALSE(table.between_nodes);
  for (const Link& link : table.links) {
    EXPECT_TRUE(link.answered);
    EXPECT_GT(link.latency_us, 0);
    EXPECT_GT(link.gigabytes_per_second, 1e-3);
    EXPECT_LT(link.gigabytes_per_second, 1e3);
  }
  EXPECT_EQ(worst_of(judge_bandwidth(table)), context.size() == 1 ? Verdict::skipped : Verdict::ok);
}

TEST_F(Job, ClocksOfOneNodeAgree) {
  const auto readings = read_clocks(context);
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(worst_of(judge_clocks(readings)), Verdict::ok);
}

TEST_F(Job, ADirectoryIsTriedOutAndLeftAsItWas) {
  const fs::path place = folder();
  const auto checks = check_filesystem(
      context, {.directory = place / "new" / "ck", .prefix = "fs", .bytes = 3 << 20, .checkpoint_bytes = 1 << 20});
  std::string names;
  for (const CheckResult& check : checks) {
    names += check.name + " ";
    EXPECT_LE(worst_of(check), Verdict::skipped) << check.name << ": " << check.summary;
    EXPECT_FALSE(check.summary.empty()) << check.name;
  }
  EXPECT_EQ(names, "fs.make fs.shared fs.exclusive fs.lock fs.write fs.read fs.hdf5-lock fs.rename fs.space fs.quota ");
  context.exchange("the end", "");
  EXPECT_TRUE(fs::is_empty(place));
  context.exchange("the end", "");
  if (context.rank() == 0) fs::remove_all(place);
}

TEST_F(Job, MoreThanThereIsRoomForFails) {
  const fs::path place = folder();
  const auto checks = check_filesystem(context, {.directory = place, .prefix = "run", .checkpoint_bytes = 1e18});
  for (const CheckResult& check : checks)
    EXPECT_EQ(worst_of(check) == Verdict::fail, check.name == "run.space") << check.name << check.summary;
  context.exchange("the end", "");
  if (context.rank() == 0) fs::remove_all(place);
}

TEST_F(Job, ADirectoryThatCannotBeMadeIsOneFailure) {
  const auto checks = check_filesystem(context, {.directory = "/proc/none/ck", .prefix = "fs", .bytes = 1 << 20});
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(worst_of(checks[0]), Verdict::fail);
  EXPECT_EQ(checks[0].records[0].code, ExitCode::io);
  EXPECT_NE(checks[0].records[0].found.find("/proc/none"), std::string::npos) << checks[0].records[0].found;
}

// As where a node has not mounted the file system: there is another folder behind the same name.
TEST_F(Job, ADirectoryThatIsNotOneIsSeen) {
  const fs::path place = folder(), mine = place / std::to_string(context.rank() == context.size() - 1 ? 1 : 0);
  fs::create_directories(mine);
  const auto checks =
      check_filesystem(context, {.directory = mine, .prefix = "fs", .bytes = 1 << 20, .seen_within = 1s});
  if (context.size() > 1) {
    const Record& last = checks[1].records.back();
    EXPECT_EQ(checks[1].name, "fs.shared");
    EXPECT_EQ(last.verdict, Verdict::fail);
    EXPECT_NE(last.found.find("what rank 0 on " + context.host() + " wrote to"), std::string::npos) << last.found;
    EXPECT_NE(last.advice.find("not one for all nodes"), std::string::npos);
    for (std::size_t rank = 0; rank + 1 < checks[1].records.size(); ++rank)
      EXPECT_EQ(checks[1].records[rank].verdict, Verdict::ok);
    for (std::size_t i = 2; i + 1 < checks.size(); ++i)
      EXPECT_EQ(checks[i].records.back().verdict, Verdict::skipped) << checks[i].name;
  }
  context.exchange("the end", "");
  EXPECT_TRUE(fs::is_empty(mine));
  context.exchange("the end", "");
  if (context.rank() == 0) fs::remove_all(place);
}

TEST_F(Job, LimitsAndVariables) {
  for (const CheckResult& check : check_limits(context, 0))
    EXPECT_EQ(check.records.size(), static_cast<std::size_t>(context.size())) << check.name;
  launch::Variables variables{{"NCCL_DEBUG", "INFO"}};
  if (context.rank() == 2) variables["NCCL_SOCKET_IFNAME"] = "eth7";
  const CheckResult check = check_environment(context, variables);
  EXPECT_EQ(check.summary, "NCCL_DEBUG=INFO");
  EXPECT_EQ(worst_of(check), context.size() > 2 ? Verdict::warn : Verdict::ok);
  EXPECT_EQ(check.records.back().rank, context.size() > 2 ? 2 : context.size() - 1);
}

TEST_F(Job, WithoutGpusThatIsToldAndNoFailureUnlessTheyWereAskedFor) {
  if (visible_gpus() > 0) GTEST_SKIP() << "GPUs are here";
  EXPECT_EQ(worst_of(check_gpus(context)), Verdict::skipped);
  EXPECT_EQ(worst_of(check_gpu_bus(context, -1, false).at(0)), Verdict::skipped);
  const auto required = check_gpu_bus(context, -1, true);
  EXPECT_EQ(worst_of(required.at(0)), Verdict::fail);
  EXPECT_EQ(required.at(0).records[0].code, ExitCode::device);
}

// The last test: afterwards the ranks' messages do not match.
TEST_F(Job, ZARankThatDoesNotComeIsNamed) {
  if (context.size() == 1) GTEST_SKIP() << "nobody to wait for";
  Context impatient(placement(false), guard, 1s);
  if (context.rank() == context.size() - 1) {
    std::this_thread::sleep_for(3s);
  } else {
    try {
      impatient.exchange("a test", "");
      ADD_FAILURE() << "nobody was missed";
    } catch (const comm::LateRanksError& error) {
      EXPECT_EQ(error.ranks(), std::vector<int>{context.size() - 1});
      EXPECT_NE(std::string(error.what()).find("in a test"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shoal::preflight
