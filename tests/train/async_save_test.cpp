// Training goes on while a checkpoint is written. The oracle is the run that waits for each: the same weights, and in
// every checkpoint the same bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "checkpoint/catalog.h"
#include "comm/mpi_process_group.h"
#include "core/error.h"
#include "train/agreement.h"
#include "train/harness.h"

namespace shoal::train {
namespace {

comm::ProcessGroup& world() {
  static comm::MpiProcessGroup* group = new comm::MpiProcessGroup(MPI_COMM_WORLD);  // MPI ends before static objects
  return *group;
}

// Twelve steps, a checkpoint after each.
SmallJob job_in(const std::filesystem::path& folder, const std::string& async_save) {
  SmallJob job;
  job.dropout = 0.5;
  job.options.checkpoint.directory = folder;
  job.options.checkpoint.every = "1";
  job.options.checkpoint.keep = 20;
  job.options.checkpoint.async_save = async_save;
  return job;
}

// A disk that takes longer than a step.
void be_slow(checkpoint::SavePoint point) {
  if (point == checkpoint::SavePoint::shard_written) std::this_thread::sleep_for(std::chrono::milliseconds(40));
}

// For each step that was saved, the checksums of all regions of all files.
std::map<std::int64_t, std::vector<std::uint32_t>> saved_in(const std::filesystem::path& folder) {
  std::map<std::int64_t, std::vector<std::uint32_t>> saved;
  for (const auto& entry : checkpoint::list_checkpoints(folder)) {
    const checkpoint::Manifest manifest = checkpoint::open_checkpoint(entry.path);
    EXPECT_EQ(manifest.step, entry.step);
    for (const checkpoint::ShardFile& file : manifest.files) saved[entry.step].push_back(file.table_crc);
  }
  return saved;
}

TEST(AsyncSave, EveryCheckpointIsThatOfARunThatWaits) {
  const SharedFolder waiting(world()), going_on(world());
  SmallRun expected(world(), job_in(waiting.path(), "off"));
  expected.run();
  SmallJob job = job_in(going_on.path(), "wait");
  job.observer = be_slow;
  SmallRun run(world(), job);
  run.run();
  EXPECT_EQ(largest_difference(run.weights(), expected.weights()), 0);
  world().barrier();
  const auto saved = saved_in(going_on.path());
  EXPECT_EQ(saved.size(), 12u);
  EXPECT_EQ(saved, saved_in(waiting.path()));
  world().barrier();
}

TEST(AsyncSave, SkippingLeavesOutWhatIsDueTooEarlyButNotTheLast) {
  const SharedFolder waiting(world()), skipping(world());
  SmallRun expected(world(), job_in(waiting.path(), "off"));
  expected.run();
  SmallJob job = job_in(skipping.path(), "skip");
  job.observer = [](checkpoint::SavePoint point) {
    if (point == checkpoint::SavePoint::shard_written) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  };
  SmallRun run(world(), job);
  run.run();
  world().barrier();
  const auto saved = saved_in(skipping.path()), all = saved_in(waiting.path());
  EXPECT_LT(saved.size(), all.size());
  ASSERT_TRUE(saved.contains(1));
  ASSERT_TRUE(saved.contains(12));
  for (const auto& [step, checksums] : saved) EXPECT_EQ(checksums, all.at(step)) << step;
  world().barrier();
}

TEST(AsyncSave, WhatWasInFlightWhenTheRunIsStoppedIsKept) {
  const SharedFolder folder(world());
  SmallJob job = job_in(folder.path(), "wait");
  job.options.checkpoint.every = "4";
  job.observer = be_slow;
  SmallRun run(world(), job);
  int asked = 0;
  EXPECT_EQ(run.run([&] { return ++asked >= 5 ? 15 : 0; }), Outcome::stopped);
  world().barrier();
  const auto saved = saved_in(folder.path());
  EXPECT_EQ(saved.size(), 2u);
  EXPECT_TRUE(saved.contains(4) && saved.contains(5));
  world().barrier();
}

TEST(AsyncSave, AFailureOfAWriterEndsTheRunOnAllRanks) {
  const SharedFolder folder(world());
  SmallJob job = job_in(folder.path(), "wait");
  job.options.checkpoint.every = "2";
  const bool fails = world().rank() == world().size() - 1;
  auto saves = std::make_shared<std::atomic<int>>(0);
  job.observer = [fails, saves](checkpoint::SavePoint point) {
    if (fails && point == checkpoint::SavePoint::shard_written && ++*saves == 2)
      throw IoError("cannot write SHARD: No space left on device");
  };
  SmallRun run(world(), job);
  try {
    run.run();
    ADD_FAILURE() << "no error";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::io);
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
  }
  EXPECT_LE(run.progress().step, 6) << "it is told of at one of the next steps";
  world().barrier();
  const auto saved = saved_in(folder.path());
  EXPECT_EQ(saved.size(), 1u);
  EXPECT_TRUE(saved.contains(2));
  world().barrier();
}

}  // namespace
}  // namespace shoal::train
