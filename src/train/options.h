// The options of a training run, one struct a layer. apps/ parses them; here they are checked and completed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/match_rules.h"
#include "fsdp/accumulation.h"
#include "fsdp/fully_shard.h"
#include "models/registry.h"
#include "train/job_options.h"
#include "train/optimizer_settings.h"

namespace shoal::train {

struct ModelSource {
  std::string name;                      // of the registry
  std::filesystem::path plugin, script;  // which add to the registry
  models::ModelOptions shape;            // what the user gave
  std::filesystem::path init_from;       // a file or folder of initial weights; empty: drawn from the seed
  bool rank0_reads = false;              // of init_from, and sends it to the others
  bool deferred_init = true;             // false: every rank builds the whole model first
};

struct DataOptions {
  std::filesystem::path path, test_path;
  bool shuffle = true;
  std::int64_t test_batch_size = 0;  // samples of all ranks together; 0: as many as a micro-step trains, or 1000
  std::int64_t sequence_length = 0;  // tokens; 0: the longest that the model takes
  std::string token_type = "auto", tokenizer = "gpt2";
  std::int64_t mask_token = -1;  // -1: the last of the vocabulary
  double mask_probability = 0.15;
  std::vector<std::int64_t> special_tokens;  // masked LM: never predicted
  int prefetch = 2;                          // batches that a thread prepares ahead; 0: none
};

// 0: not given. docs/training.md tells how the rest follows from what is given.
struct BatchOptions {
  std::int64_t batch_size = 0;         // samples of a rank's micro-step
  std::int64_t global_batch_size = 0;  // samples of a step, over all ranks and micro-steps
  std::int64_t accumulate = 0;         // micro-steps a step
  bool deterministic = false;          // micro-batches of fixed size, whatever the number of ranks
};

fsdp::Accumulation parse_accumulate_mode(const std::string& text);  // OptionError that names --accumulate-mode

struct ShardingOptions {
  std::string strategy = "full_shard";
  int shard_size = 0;  // ranks a shard group of the hybrid strategies; 0: the ranks of a node
  // Ranks among which units stay whole between forward and backward, a divisor of the shard group; 0: none do.
  int reshard_after_forward = 0;
  std::string wrap = "none";
  int forward_prefetch = 1, backward_prefetch = 1;  // units
  bool backward_prefetch_post = false;              // the one unit ahead only after the gradients of the one before
  int limit_all_gathers = 0;                        // units whole at a time; 0: as prefetching asks for
  // fp32, bf16, fp16. auto: parameters and buffers as the model has them, gradients reduced in fp32 at least.
  std::string param_dtype = "auto", reduce_dtype = "auto", buffer_dtype = "auto";
  std::string offload = "none";  // none, optimizer, params
  std::string activation_checkpoint = "none";
  bool activation_offload = false;
  std::string check_replicas = "start";  // start, never, or a number of steps
  std::string accumulate_mode = "defer";
};

// What fully_shard() makes of them.
fsdp::Accumulation accumulation_of(const ShardingOptions& sharding, std::int64_t micro_steps);
fsdp::FullyShardOptions fully_shard_options(const ShardingOptions& sharding, bool deterministic);

struct CheckpointOptions {
  std::filesystem::path directory;  // "none": no checkpoints
  std::string every = "1e";         // "N" steps, "Ne" epochs, "0": only at the end and when stopped
  int keep = 2;
  int files = 0;  // of a checkpoint; 0: one a rank on one host, one a host on several
  // Training goes on while a checkpoint is written: "wait", the next one waits for it; "skip", it is left out; "off",
  // training waits.
  std::string async_save = "wait";
  std::string view = "on";      // "on", "off": model.h5 in each checkpoint
  double stage_gib = 0;         // host memory of a rank for copies of what is being written; 0: see stage_bytes()
  std::int64_t keep_every = 0;  // steps whose multiples are kept for ever; 0: none
  bool save_at_start = false;   // a checkpoint of step 0, where nothing is resumed
  std::string resume = "auto";  // "auto", "never", or a path
  std::vector<std::string> allow_missing, allow_extra, rename;  // checkpoint::MatchRules, of resume and init_from
  std::filesystem::path output;                                 // consolidated weights; "none": not written
  std::string output_driver = "posix";                          // "posix", rank 0 writes it; "mpio", all ranks at once
};

checkpoint::MatchRules match_rules(const CheckpointOptions& options);  // OptionError that names --rename

inline constexpr std::int64_t kNoEpochLimit = std::numeric_limits<std::int64_t>::max();

struct RunOptions {
  std::int64_t epochs = 0;     // 0: not given, which is the model's default, or no limit where max_steps is given
  std::int64_t max_steps = 0;  // optimizer steps of the whole run, stops included; 0: no limit
  std::int64_t seed = 1;
  std::int64_t log_every = 10;  // steps
  std::string device = "auto";
  int threads = 0;                            // 0: the rank's share of the node's cores
  static constexpr double kAMinuteMore = -1;  // than the hang timeout, which has more to say
  double collective_timeout = kAMinuteMore;   // seconds
  bool deterministic = false;
  std::filesystem::path trace;  // empty: none
  bool tensorboard = false;     // event files in the run directory
  double peak_tflops = 0;       // of a rank's device, for MFU; 0: by its name
  bool print_model = false, dry_run = false, quiet = false;
};

struct TrainOptions {
  ModelSource model;
  DataOptions data;
  BatchOptions batch;
  ShardingOptions sharding;
  OptimizerSettings optimizer;
  CheckpointOptions checkpoint;
  JobOptions job;
  RunOptions run;
};

// What the model is trained with unless the user says otherwise.
TrainOptions defaults_for(const models::ModelEntry& model);

// Fills in what follows from other options (output file, checkpoint directory) and checks every value that can be
// checked without ranks, files or a model. Throws OptionError that names the option.
void complete_and_check(TrainOptions& options);

// Every option that has a say in the result or in where it goes, by its name on the command line.
std::vector<std::pair<std::string, std::string>> resolved(const TrainOptions& options);

bool validates(const TrainOptions& options);  // where there are test data
bool writes_checkpoints(const TrainOptions& options);
bool writes_output(const TrainOptions& options);

}  // namespace shoal::train
