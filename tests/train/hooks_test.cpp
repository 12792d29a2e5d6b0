// What is asked of a run from outside, on whichever rank, happens on all ranks after the same step.
#include <gtest/gtest.h>

#include "comm/mpi_process_group.h"
#include "train/agreement.h"
#include "train/harness.h"

namespace shoal::train {
namespace {

comm::ProcessGroup& world() {
  static comm::MpiProcessGroup* group = new comm::MpiProcessGroup(MPI_COMM_WORLD);  // MPI ends before static objects
  return *group;
}

// A run of twelve steps, four an epoch, whose hooks note what they hear.
struct Heard {
  std::vector<std::int64_t> stepped, saved;
  std::vector<launch::Ahead> ahead;
};

// `asked`: what rank `rank` is asked in step `step`.
TrainerHooks hooks_that_ask(Heard& heard, int rank, std::size_t step, const Asks& asked) {
  TrainerHooks hooks;
  hooks.asks = [&heard, rank, step, asked](launch::Ahead ahead) {
    heard.ahead.push_back(ahead);
    return world().rank() == rank && heard.ahead.size() == step ? asked : Asks();
  };
  hooks.stepped = [&heard](const Progress& after, const StepResult&, double seconds) {
    EXPECT_GE(seconds, 0);
    heard.stepped.push_back(after.step);
  };
  hooks.saved = [&heard](const checkpoint::SaveReport& report, std::int64_t at, double seconds) {
    // Rank 0 removes the folder, perhaps before others come here.
    EXPECT_TRUE(world().rank() != 0 || std::filesystem::exists(report.path));
    EXPECT_GE(seconds, report.seconds);
    heard.saved.push_back(at);
  };
  return hooks;
}

using Steps = std::vector<std::int64_t>;

TEST(TrainerHooks, SaveOnAnyRankSavesAndGoesOn) {
  const SharedFolder folder(world());
  SmallJob job;
  job.options.checkpoint.directory = folder.path();
  Heard heard;
  SmallRun run(world(), job);
  EXPECT_EQ(run.run(hooks_that_ask(heard, world().size() - 1, 3, {.save = true})), Outcome::finished);
  EXPECT_EQ(heard.saved, (Steps{3, 12}));
  EXPECT_EQ(heard.stepped.size(), 12u);
}

TEST(TrainerHooks, EveryReasonToStopStopsAllAndIsKnownToAll) {
  for (const Asks& asked : {Asks{.signal = true}, Asks{.deadline = true}, Asks{.stop_file = true}}) {
    const SharedFolder folder(world());
    SmallJob job;
    job.options.checkpoint.directory = folder.path();
    Heard heard;
    SmallRun run(world(), job);
    EXPECT_EQ(run.run(hooks_that_ask(heard, 0, 5, asked)), Outcome::stopped);
    EXPECT_EQ(heard.saved, (Steps{5}));
    EXPECT_EQ(heard.stepped.back(), 5);
    for (const auto ask : kAsks) EXPECT_EQ(run.stopped_by().*ask, asked.*ask);
  }
}

// Nobody has entered: the suspicion is looked into, and the run goes on.
TEST(TrainerHooks, AFalseAlarmAboutANewerAttemptIsNothing) {
  const SharedFolder folder(world());
  SmallJob job;
  job.options.checkpoint.directory = folder.path();
  Heard heard;
  SmallRun run(world(), job);
  EXPECT_EQ(run.run(hooks_that_ask(heard, 0, 2, {.superseded = true})), Outcome::finished);
}

TEST(TrainerHooks, WhatIsAheadIsKnown) {
  const SharedFolder folder(world());
  SmallJob job;
  job.options.checkpoint.directory = folder.path();
  job.options.checkpoint.every = "5";
  job.options.checkpoint.async_save = "off";
  Heard heard;
  SmallRun run(world(), job);
  run.run(hooks_that_ask(heard, 0, 0, {}));
  ASSERT_EQ(heard.ahead.size(), 12u);
  for (std::size_t step = 1; step <= 12; ++step) {
    const launch::Ahead& ahead = heard.ahead[step - 1];
    EXPECT_EQ(ahead.checkpoint, step % 5 == 0) << step;
    // The first validation was not measured when its epoch ended.
    EXPECT_EQ(ahead.seconds > 0, step == 8 || step == 12) << step;
  }
}

}  // namespace
}  // namespace shoal::train
