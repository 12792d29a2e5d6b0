// What a traced training run writes down.
#include "fsdp/trace_file.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "fsdp/harness.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using Json = nlohmann::json;

constexpr int kSteps = 5;

std::string trace_path(const comm::ProcessGroup& world) {
  return (std::filesystem::temp_directory_path() / fmt::format("shoal_trace_{}_{}.json", getppid(), world.size()))
      .string();
}

std::vector<StepTimes> train_and_write(comm::ProcessGroup& world, Trace& trace, const std::string& path) {
  Sharded sharded = shard(world, make_mlp, "class:Block", {.trace = &trace});
  fsdp::ShardedOptimizer optimizer(*sharded.fsdp, optim::make_optimizer({.name = "sgd"}));
  const Job job;
  for (int step = 1; step <= kSteps; ++step) {
    trace.begin_step(step);
    const auto [x, y] = samples(job, step, world.rank(), 1);
    sharded.fsdp->run([&] { torch::mse_loss(sharded.model.forward(x), y, torch::Reduction::Sum).backward(); });
    optimizer.step(0.1, 1.0 / world.size());
  }
  return fsdp::write_trace(*sharded.fsdp, path);
}

Json read_events(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file).at("traceEvents");
}

// Of one rank and one step, by lane; the events in the order of their starts.
std::map<std::string, std::vector<Json>> events_by_lane(const Json& events, int rank, int step) {
  std::map<std::string, std::vector<Json>> lanes;
  for (const Json& event : events)
    if (event.at("ph") == "X" && event.at("pid") == rank && event.at("args").at("step") == step)
      lanes[event.at("cat")].push_back(event);
  for (auto& [lane, list] : lanes)
    std::stable_sort(list.begin(), list.end(),
                     [](const Json& a, const Json& b) { return a.at("ts").get<double>() < b.at("ts").get<double>(); });
  return lanes;
}

bool names_unit(const std::string& name, const std::string& unit) {
  return name.find("'" + unit + "'") != std::string::npos;
}

// Each unit's parameters had been gathered before it was computed with.
void expect_gathered_before_use(const std::map<std::string, std::vector<Json>>& lanes) {
  int checked = 0;
  for (const Json& use : lanes.at("compute")) {
    const std::string name = use.at("name");
    if (name.find(' ') == std::string::npos) continue;  // before the first unit
    const std::string unit = name.substr(name.find(' ') + 1);
    bool gathered = false;
    for (const Json& gather : lanes.at("all-gather"))
      gathered =
          gathered || (names_unit(gather.at("name"), unit) &&
                       gather.at("ts").get<double>() + gather.at("dur").get<double>() <= use.at("ts").get<double>());
    EXPECT_TRUE(gathered) << name;
    ++checked;
  }
  EXPECT_GE(checked, 8);  // root, three blocks and the root's head, and back
}

TEST(TraceFileTest, HoldsUnitsCollectivesAndStepsOfAllRanks) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;
    Trace trace(3, 4);
    const std::string path = trace_path(world);
    const auto times = train_and_write(world, trace, path);
    ASSERT_EQ(times.size(), 2u);
    EXPECT_GT(times[0].compute, 0);
    EXPECT_GT(times[0].collectives, 0);
    EXPECT_LE(times[0].exposed, times[0].collectives);
    if (world.rank() == 0) {
      const Json events = read_events(path);
      for (int rank = 0; rank < world.size(); ++rank)
        for (const int step : {3, 4}) {
          const auto lanes = events_by_lane(events, rank, step);
          expect_gathered_before_use(lanes);
          EXPECT_GE(lanes.at("reduce-scatter").size(), 4u);
          EXPECT_EQ(lanes.at("host").size(), 2u);  // step and run
          for (const auto& [lane, list] : lanes)
            for (const Json& event : list) EXPECT_GE(event.at("dur").get<double>(), 0) << event.dump();
        }
      for (const int step : {1, 2, 5}) EXPECT_TRUE(events_by_lane(events, 0, step).empty());
      std::filesystem::remove(path);
    }
    world.barrier();
  });
}

TEST(TraceFileTest, APathThatCannotBeWrittenIsAnErrorOnAllRanks) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Trace trace(1, 1);
    Sharded sharded = shard(world, make_mlp, "class:Block", {.trace = &trace});
    try {
      fsdp::write_trace(*sharded.fsdp, "/nonexistent/trace.json");
      ADD_FAILURE() << "no error";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("change --trace"), std::string::npos) << error.what();
    }
  });
}

// An exception leaves a trace that goes on with the next run().
TEST(TraceFileTest, ARunThatFailsEndsItsSpans) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Trace trace(1, 9);
    Sharded sharded = shard(world, make_mlp, "class:Block", {.trace = &trace});
    const Job job;
    const auto [x, y] = samples(job, 0, world.rank(), 1);
    trace.begin_step(1);
    EXPECT_THROW(sharded.fsdp->run([&, x = x] {
      sharded.model.forward(x);
      throw std::runtime_error("the user's");
    }),
                 std::runtime_error);
    trace.begin_step(2);
    sharded.fsdp->run(
        [&, x = x, y = y] { torch::mse_loss(sharded.model.forward(x), y, torch::Reduction::Sum).backward(); });
    trace.end_step();
    int runs = 0;
    for (const Trace::Span& span : trace.spans()) {
      EXPECT_GE(span.end, span.start) << span.name;
      runs += span.name == "run";
    }
    EXPECT_EQ(runs, 1);
  });
}

}  // namespace
}  // namespace shoal::testing
