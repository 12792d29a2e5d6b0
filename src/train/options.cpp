#include "train/options.h"

#include <cmath>

#include "core/check.h"
#include "fsdp/fully_shard.h"
#include "optim/schedule.h"
#include "train/cadence.h"

namespace shoal::train {
namespace {

constexpr const char* kNone = "none";

void check_at_least(const char* option, std::int64_t value, std::int64_t least) {
  SHOAL_CHECK(value >= least, OptionError, "{} must be at least {}, not {}", option, least, value);
}

void check_batch(const BatchOptions& batch) {
  check_at_least("--batch-size", batch.batch_size, 0);
  check_at_least("--global-batch-size", batch.global_batch_size, 0);
  check_at_least("--accumulate", batch.accumulate, 0);
}

void check_optimizer(const OptimizerSettings& optimizer) {
  SHOAL_CHECK(std::isfinite(optimizer.learning_rate) && optimizer.learning_rate >= 0, OptionError,
              "--lr must be a number >= 0, not {}", optimizer.learning_rate);
  SHOAL_CHECK(std::isfinite(optimizer.clip_grad_norm) && optimizer.clip_grad_norm >= 0, OptionError,
              "--clip-grad-norm must be a number >= 0 (0: no clipping), not {}", optimizer.clip_grad_norm);
  optim::make_optimizer(optimizer.rule);
  optim::Schedule::parse(optimizer.schedule);
}

void check_sharding(const ShardingOptions& sharding) {
  const fsdp::Strategy strategy = fsdp::parse_strategy(sharding.strategy);
  const bool hybrid = strategy == fsdp::Strategy::hybrid_shard || strategy == fsdp::Strategy::hybrid_shard_zero2;
  check_at_least("--shard-size", sharding.shard_size, 0);
  SHOAL_CHECK(hybrid || sharding.shard_size == 0, OptionError,
              "--shard-size is for --strategy hybrid_shard and hybrid_shard_zero2, not for {}", sharding.strategy);
  fsdp::parse_wrap_policy(sharding.wrap);
  check_at_least("--forward-prefetch", sharding.forward_prefetch, 0);
  check_at_least("--backward-prefetch", sharding.backward_prefetch, 0);
}

void check_run(const RunOptions& run) {
  check_at_least("--epochs", run.epochs, 0);
  check_at_least("--max-steps", run.max_steps, 0);
  check_at_least("--seed", run.seed, 0);
  check_at_least("--log-every", run.log_every, 1);
  check_at_least("--threads", run.threads, 0);
  SHOAL_CHECK(run.collective_timeout > 0 && run.collective_timeout < 1e7, OptionError,
              "--collective-timeout must be a number of seconds > 0, not {}", run.collective_timeout);
  SHOAL_CHECK(run.device == "auto" || run.device == "cpu" || run.device == "cuda", OptionError,
              "--device takes auto, cpu or cuda, not '{}'", run.device);
}

void complete_run(TrainOptions& options) {
  RunOptions& run = options.run;
  if (run.epochs > 0) return;
  run.epochs = run.max_steps > 0 ? kNoEpochLimit : models::find_model(options.model).defaults.epochs;
}

void complete_checkpoint(TrainOptions& options) {
  CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.directory.empty()) checkpoint.directory = std::filesystem::path("checkpoints") / options.model;
  if (checkpoint.output.empty())
    checkpoint.output = writes_checkpoints(options) ? checkpoint.directory / (options.model + ".h5") : kNone;
}

void check_checkpoint(const TrainOptions& options) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  check_at_least("--keep", checkpoint.keep, 1);
  Cadence::parse(checkpoint.every);
  SHOAL_CHECK(!checkpoint.resume.empty(), OptionError, "--resume takes auto, never or a path");
  if (!writes_output(options)) return;
  SHOAL_CHECK(writes_checkpoints(options), OptionError,
              "--output {} is made from the last checkpoint: it needs a --checkpoint-dir", checkpoint.output.string());
  const std::string suffix = checkpoint.output.extension().string();
  SHOAL_CHECK(suffix == ".h5" || suffix == ".pt", OptionError,
              "--output must end in .h5 (HDF5) or .pt (PyTorch), not '{}'", checkpoint.output.string());
}

std::string on_or_off(bool value) { return value ? "on" : "off"; }

}  // namespace

TrainOptions defaults_for(const models::ModelEntry& model) {
  TrainOptions options;
  options.model = model.name;
  options.sharding.wrap = model.defaults.wrap;
  options.optimizer.rule.name = model.defaults.optimizer;
  options.optimizer.learning_rate = model.defaults.learning_rate;
  options.optimizer.schedule = model.defaults.schedule;
  return options;
}

void complete_and_check(TrainOptions& options) {
  check_batch(options.batch);
  check_optimizer(options.optimizer);
  check_sharding(options.sharding);
  check_run(options.run);
  check_at_least("--test-batch-size", options.data.test_batch_size, 1);
  SHOAL_CHECK(!options.data.path.empty() || options.run.print_model, OptionError,
              "--data is missing: it names the folder with the training data");
  complete_run(options);
  complete_checkpoint(options);
  check_checkpoint(options);
}

std::vector<std::pair<std::string, std::string>> resolved(const TrainOptions& o) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {{"model", o.model},
          {"data", o.data.path.string()},
          {"no-shuffle", on_or_off(!o.data.shuffle)},
          {"epochs", o.run.epochs == kNoEpochLimit ? "0" : text(o.run.epochs)},
          {"max-steps", text(o.run.max_steps)},
          {"batch-size", text(o.batch.batch_size)},
          {"global-batch-size", text(o.batch.global_batch_size)},
          {"accumulate", text(o.batch.accumulate)},
          {"test-batch-size", text(o.data.test_batch_size)},
          {"strategy", o.sharding.strategy},
          {"shard-size", text(o.sharding.shard_size)},
          {"wrap", o.sharding.wrap},
          {"forward-prefetch", text(o.sharding.forward_prefetch)},
          {"backward-prefetch", text(o.sharding.backward_prefetch)},
          {"optimizer", o.optimizer.rule.name},
          {"lr", text(o.optimizer.learning_rate)},
          {"momentum", text(o.optimizer.rule.momentum)},
          {"betas", fmt::format("{},{}", o.optimizer.rule.beta1, o.optimizer.rule.beta2)},
          {"weight-decay", text(o.optimizer.rule.weight_decay)},
          {"schedule", o.optimizer.schedule},
          {"clip-grad-norm", text(o.optimizer.clip_grad_norm)},
          {"checkpoint-dir", o.checkpoint.directory.string()},
          {"checkpoint-every", o.checkpoint.every},
          {"keep", text(o.checkpoint.keep)},
          {"resume", o.checkpoint.resume},
          {"output", o.checkpoint.output.string()},
          {"seed", text(o.run.seed)},
          {"device", o.run.device},
          {"log-every", text(o.run.log_every)},
          {"collective-timeout", text(o.run.collective_timeout)}};
}

bool writes_checkpoints(const TrainOptions& options) { return options.checkpoint.directory != kNone; }
bool writes_output(const TrainOptions& options) { return options.checkpoint.output != kNone; }

}  // namespace shoal::train
