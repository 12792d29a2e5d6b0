// The options of a training run, one struct a layer. apps/ parses them; here they are checked and completed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "models/registry.h"
#include "optim/optimizer.h"

namespace shoal::train {

struct DataOptions {
  std::filesystem::path path;
  bool shuffle = true;
  std::int64_t test_batch_size = 1000;  // samples of all ranks together
};

// 0: not given. docs/training.md tells how the rest follows from what is given.
struct BatchOptions {
  std::int64_t batch_size = 0;         // samples of a rank's micro-step
  std::int64_t global_batch_size = 0;  // samples of a step, over all ranks and micro-steps
  std::int64_t accumulate = 0;         // micro-steps a step
};

struct ShardingOptions {
  std::string strategy = "full_shard";
  int shard_size = 0;  // ranks a shard group of the hybrid strategies; 0: the ranks of a node
  std::string wrap = "none";
  int forward_prefetch = 1, backward_prefetch = 1;  // units
};

struct OptimizerSettings {
  optim::OptimizerOptions rule;
  double learning_rate = 1e-3;
  std::string schedule = "constant";
  double clip_grad_norm = 0;  // 0: no clipping
};

struct CheckpointOptions {
  std::filesystem::path directory;  // "none": no checkpoints
  std::string every = "1e";         // "N" steps, "Ne" epochs, "0": only at the end and when stopped
  int keep = 2;
  std::string resume = "auto";   // "auto", "never", or a path
  std::filesystem::path output;  // consolidated weights; "none": not written
};

inline constexpr std::int64_t kNoEpochLimit = std::numeric_limits<std::int64_t>::max();

struct RunOptions {
  std::int64_t epochs = 0;     // 0: not given, which is the model's default, or no limit where max_steps is given
  std::int64_t max_steps = 0;  // optimizer steps of the whole run, stops included; 0: no limit
  std::int64_t seed = 1;
  std::int64_t log_every = 10;  // steps
  std::string device = "auto";
  int threads = 0;                  // 0: the rank's share of the node's cores
  double collective_timeout = 600;  // seconds
  bool print_model = false, dry_run = false, quiet = false;
};

struct TrainOptions {
  std::string model;
  DataOptions data;
  BatchOptions batch;
  ShardingOptions sharding;
  OptimizerSettings optimizer;
  CheckpointOptions checkpoint;
  RunOptions run;
};

// What the model is trained with unless the user says otherwise.
TrainOptions defaults_for(const models::ModelEntry& model);

// Fills in what follows from other options (output file, checkpoint directory) and checks every value that can be
// checked without ranks, files or a model. Throws OptionError that names the option.
void complete_and_check(TrainOptions& options);

// Every option that has a say in the result or in where it goes, by its name on the command line.
std::vector<std::pair<std::string, std::string>> resolved(const TrainOptions& options);

bool writes_checkpoints(const TrainOptions& options);
bool writes_output(const TrainOptions& options);

}  // namespace shoal::train
