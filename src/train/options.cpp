#include "train/options.h"

#include <fmt/ranges.h>

#include <cmath>
#include <optional>

#include "core/check.h"
#include "fsdp/recompute.h"
#include "optim/parameter_groups.h"
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

void check_model(const ModelSource& model) {
  SHOAL_CHECK(!model.rank0_reads || !model.init_from.empty(), OptionError,
              "--sync-module-states is about the file of --init-from, which is not given");
}

void check_data(const DataOptions& data) {
  check_at_least("--test-batch-size", data.test_batch_size, 0);
  check_at_least("--sequence-length", data.sequence_length, 0);
  check_at_least("--mask-token", data.mask_token, -1);
  check_at_least("--prefetch-batches", data.prefetch, 0);
  SHOAL_CHECK(data.mask_probability > 0 && data.mask_probability < 1, OptionError,
              "--mask-probability must be between 0 and 1, not {}", data.mask_probability);
  SHOAL_CHECK(data.token_type == "auto" || data.token_type == "uint16" || data.token_type == "uint32", OptionError,
              "--token-type takes auto, uint16 or uint32, not '{}'", data.token_type);
}

void check_optimizer(const OptimizerSettings& optimizer) {
  SHOAL_CHECK(std::isfinite(optimizer.learning_rate) && optimizer.learning_rate >= 0, OptionError,
              "--lr must be a number >= 0, not {}", optimizer.learning_rate);
  SHOAL_CHECK(std::isfinite(optimizer.clip_grad_norm) && optimizer.clip_grad_norm >= 0, OptionError,
              "--clip-grad-norm must be a number >= 0 (0: no clipping), not {}", optimizer.clip_grad_norm);
  check_at_least("--warmup", optimizer.warmup, 0);
  optim::make_optimizer(optimizer.rule);
  optim::Schedule::parse(optimizer.schedule);
  optim::ParameterGroups::parse(optimizer.no_decay, optimizer.param_groups);
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
  parse_accumulate_mode(sharding.accumulate_mode);
  fsdp::RecomputePolicy::parse(sharding.activation_checkpoint);
  fully_shard_options(sharding, false);
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
  run.epochs = run.max_steps > 0 ? kNoEpochLimit : models::find_model(options.model.name).defaults.epochs;
}

void complete_checkpoint(TrainOptions& options) {
  CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.directory.empty()) checkpoint.directory = std::filesystem::path("checkpoints") / options.model.name;
  if (checkpoint.output.empty())
    checkpoint.output = writes_checkpoints(options) ? checkpoint.directory / (options.model.name + ".h5") : kNone;
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

std::string path_or_none(const std::filesystem::path& path) { return path.empty() ? kNone : path.string(); }

std::optional<at::ScalarType> parse_dtype(const char* option, const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text == "fp32") return at::kFloat;
  if (text == "bf16") return at::kBFloat16;
  SHOAL_CHECK(text == "fp16", OptionError, "{} takes auto, fp32, bf16 or fp16, not '{}'", option, text);
  return at::kHalf;
}

fsdp::Offload parse_offload(const std::string& text) {
  if (text == "params") return fsdp::Offload::params;
  if (text == "optimizer") return fsdp::Offload::optimizer;
  SHOAL_CHECK(text == "none", OptionError, "--offload takes none, optimizer or params, not '{}'", text);
  return fsdp::Offload::none;
}

using NamedValues = std::vector<std::pair<std::string, std::string>>;

template <typename T>
std::string text(const T& value) {
  return fmt::format("{}", value);
}

NamedValues input_options(const TrainOptions& o) {
  return {{"model", o.model.name},
          {"model-plugin", path_or_none(o.model.plugin)},
          {"model-script", path_or_none(o.model.script)},
          {"init-from", path_or_none(o.model.init_from)},
          {"sync-module-states", on_or_off(o.model.rank0_reads)},
          {"data", o.data.path.string()},
          {"test-data", path_or_none(o.data.test_path)},
          {"sequence-length", text(o.data.sequence_length)},
          {"token-type", o.data.token_type},
          {"tokenizer", o.data.tokenizer},
          {"mask-token", text(o.data.mask_token)},
          {"mask-probability", text(o.data.mask_probability)},
          {"special-tokens",
           o.data.special_tokens.empty() ? kNone : fmt::format("{}", fmt::join(o.data.special_tokens, ","))},
          {"prefetch-batches", text(o.data.prefetch)},
          {"no-shuffle", on_or_off(!o.data.shuffle)},
          {"epochs", o.run.epochs == kNoEpochLimit ? "0" : text(o.run.epochs)},
          {"max-steps", text(o.run.max_steps)},
          {"batch-size", text(o.batch.batch_size)},
          {"global-batch-size", text(o.batch.global_batch_size)},
          {"accumulate", text(o.batch.accumulate)},
          {"test-batch-size", text(o.data.test_batch_size)}};
}

// Of the model's shape, what it has.
NamedValues shape_options(const models::ModelOptions& shape) {
  NamedValues all;
  const auto add = [&](const char* name, auto value, bool has) {
    if (has) all.emplace_back(name, text(value));
  };
  add("layers", shape.layers, shape.layers > 0);
  add("heads", shape.heads, shape.heads > 0);
  add("kv-heads", shape.kv_heads, shape.kv_heads > 0);
  add("hidden-size", shape.hidden_size, shape.hidden_size > 0);
  add("intermediate-size", shape.intermediate_size, shape.intermediate_size > 0);
  add("vocab-size", shape.vocab_size, shape.vocab_size > 0);
  add("max-positions", shape.max_positions, shape.max_positions > 0);
  add("dropout", shape.dropout, shape.dropout >= 0);
  add("untied-head", on_or_off(shape.untied_head), shape.vocab_size > 0);
  add("rope-theta", shape.rope_theta, shape.rope_theta > 0);
  add("rope-scaling", shape.rope_scaling, shape.rope_scaling > 0);
  return all;
}

NamedValues course_options(const TrainOptions& o) {
  return {{"strategy", o.sharding.strategy},
          {"shard-size", text(o.sharding.shard_size)},
          {"wrap", o.sharding.wrap},
          {"forward-prefetch", text(o.sharding.forward_prefetch)},
          {"backward-prefetch", text(o.sharding.backward_prefetch)},
          {"param-dtype", o.sharding.param_dtype},
          {"reduce-dtype", o.sharding.reduce_dtype},
          {"buffer-dtype", o.sharding.buffer_dtype},
          {"offload", o.sharding.offload},
          {"activation-checkpoint", o.sharding.activation_checkpoint},
          {"accumulate-mode", o.sharding.accumulate_mode},
          {"optimizer", o.optimizer.rule.name},
          {"lr", text(o.optimizer.learning_rate)},
          {"momentum", text(o.optimizer.rule.momentum)},
          {"betas", fmt::format("{},{}", o.optimizer.rule.beta1, o.optimizer.rule.beta2)},
          {"weight-decay", text(o.optimizer.rule.weight_decay)},
          {"schedule", o.optimizer.schedule},
          {"warmup", text(o.optimizer.warmup)},
          {"no-decay", o.optimizer.no_decay},
          {"param-group",
           o.optimizer.param_groups.empty() ? kNone : fmt::format("{}", fmt::join(o.optimizer.param_groups, " "))},
          {"clip-grad-norm", text(o.optimizer.clip_grad_norm)}};
}

NamedValues run_options(const TrainOptions& o) {
  return {{"checkpoint-dir", o.checkpoint.directory.string()},
          {"checkpoint-every", o.checkpoint.every},
          {"keep", text(o.checkpoint.keep)},
          {"resume", o.checkpoint.resume},
          {"output", o.checkpoint.output.string()},
          {"seed", text(o.run.seed)},
          {"deterministic", on_or_off(o.run.deterministic)},
          {"device", o.run.device},
          {"log-every", text(o.run.log_every)},
          {"collective-timeout", text(o.run.collective_timeout)}};
}

}  // namespace

TrainOptions defaults_for(const models::ModelEntry& model) {
  TrainOptions options;
  options.model.name = model.name;
  options.sharding.wrap = model.defaults.wrap;
  options.optimizer.rule.name = model.defaults.optimizer;
  options.optimizer.learning_rate = model.defaults.learning_rate;
  options.optimizer.schedule = model.defaults.schedule;
  return options;
}

AccumulateMode parse_accumulate_mode(const std::string& text) {
  if (text == "reduce") return AccumulateMode::reduce;
  if (text == "keep") return AccumulateMode::keep;
  SHOAL_CHECK(text == "defer", OptionError, "--accumulate-mode takes defer, reduce or keep, not '{}'", text);
  return AccumulateMode::defer;
}

fsdp::FullyShardOptions fully_shard_options(const ShardingOptions& sharding, bool deterministic) {
  fsdp::FullyShardOptions options;
  options.reshard_after_forward = fsdp::reshards_after_forward(fsdp::parse_strategy(sharding.strategy));
  options.forward_prefetch = sharding.forward_prefetch;
  options.backward_prefetch = sharding.backward_prefetch;
  fsdp::MixedPrecisionPolicy& dtypes = options.mixed_precision;
  dtypes.param_dtype = parse_dtype("--param-dtype", sharding.param_dtype);
  dtypes.reduce_dtype = parse_dtype("--reduce-dtype", sharding.reduce_dtype);
  dtypes.buffer_dtype = parse_dtype("--buffer-dtype", sharding.buffer_dtype);
  const bool sixteen_bits = dtypes.param_dtype && dtypes.param_dtype != at::kFloat;
  if (sixteen_bits && !dtypes.reduce_dtype) dtypes.reduce_dtype = at::kFloat;
  options.offload = parse_offload(sharding.offload);
  options.deterministic = deterministic;
  options.activation_checkpoint = sharding.activation_checkpoint;
  return options;
}

void complete_and_check(TrainOptions& options) {
  check_model(options.model);
  check_data(options.data);
  check_batch(options.batch);
  check_optimizer(options.optimizer);
  check_sharding(options.sharding);
  check_run(options.run);
  SHOAL_CHECK(!options.data.path.empty() || options.run.print_model, OptionError,
              "--data is missing: it names the folder with the training data");
  options.batch.deterministic = options.run.deterministic;
  SHOAL_CHECK(
      !options.run.deterministic || parse_accumulate_mode(options.sharding.accumulate_mode) != AccumulateMode::keep,
      OptionError,
      "--deterministic cannot sum what --accumulate-mode keep has summed on each rank: use defer or reduce");
  complete_run(options);
  complete_checkpoint(options);
  check_checkpoint(options);
}

std::vector<std::pair<std::string, std::string>> resolved(const TrainOptions& options) {
  NamedValues all = input_options(options);
  for (const NamedValues& more : {shape_options(options.model.shape), course_options(options), run_options(options)})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

bool writes_checkpoints(const TrainOptions& options) { return options.checkpoint.directory != kNone; }
bool writes_output(const TrainOptions& options) { return options.checkpoint.output != kNone; }

}  // namespace shoal::train
