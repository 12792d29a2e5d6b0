// Everything that a Trainer needs, over a group of ranks, for the small problem.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/checkpointer.h"
#include "comm/device_mesh.h"
#include "train/small_problem.h"
#include "train/trainer.h"

namespace shoal::train {

// Collective over `group`: a new empty folder that all ranks see. Removed by the destructor of rank 0.
class SharedFolder {
 public:
  explicit SharedFolder(comm::ProcessGroup& group);
  ~SharedFolder();
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool owner_;
};

struct SmallJob {
  TrainOptions options;
  double dropout = 0;
  std::int64_t samples = 50;
  checkpoint::SaveObserver observer;

  SmallJob();
};

// A job's objects. Construction and run() are collective over `group`.
class SmallRun {
 public:
  SmallRun(comm::ProcessGroup& group, const SmallJob& job);
  // restore(), then run().
  Outcome run(std::function<int()> stop_signal = [] { return 0; });
  Outcome run(TrainerHooks hooks);
  Weights weights();
  TrainParts parts();
  const BatchPlan& plan() const { return plan_; }
  const Progress& progress() const { return trainer_->progress(); }
  const Asks& stopped_by() const { return trainer_->stopped_by(); }

 private:
  comm::ProcessGroup& group_;
  TrainOptions options_;
  BatchPlan plan_;
  SmallModel model_;
  SmallData train_data_, test_data_;
  comm::DeviceMesh mesh_;
  std::unique_ptr<fsdp::FullyShardedModule> sharded_;
  fsdp::ShardedOptimizer optimizer_;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace shoal::train
