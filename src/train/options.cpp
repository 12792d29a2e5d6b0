#include "train/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/check.h"
#include "fsdp/recompute.h"
#include "hdf5/mpio.h"
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
  schedule_of(optimizer);
  check(optimizer.loss_scale);
  optim::ParameterGroups::parse(optimizer.no_decay, optimizer.param_groups);
}

// How often replicas are compared; -1 for never, 0 for at the start alone.
std::int64_t parse_check_replicas(const std::string& text) {
  if (text == "never") return -1;
  if (text == "start") return 0;
  std::int64_t steps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  SHOAL_CHECK(error == std::errc() && end == text.data() + text.size() && steps >= 1, OptionError,
              "--check-replicas takes start, never or a number of steps, not '{}'", text);
  return steps;
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
  check_at_least("--reshard-after-forward", sharding.reshard_after_forward, 0);
  check_at_least("--limit-all-gathers", sharding.limit_all_gathers, 0);
  parse_accumulate_mode(sharding.accumulate_mode);
  fsdp::RecomputePolicy::parse(sharding.activation_checkpoint);
  fully_shard_options(sharding, false);
}

void check_run(const RunOptions& run) {
  check_at_least("--epochs", run.epochs, 0);
  check_at_least("--max-steps", run.max_steps, 0);
  check_at_least("--seed", run.seed, 0);
  check_at_least("--log-every", run.log_every, 1);
  SHOAL_CHECK(run.peak_tflops >= 0, OptionError, "--peak-tflops {} is negative", run.peak_tflops);
  check_at_least("--threads", run.threads, 0);
  SHOAL_CHECK(run.collective_timeout > 0 && run.collective_timeout < 1e7, OptionError,
              "--collective-timeout must be a number of seconds > 0, not {}", run.collective_timeout);
  SHOAL_CHECK(run.device == "auto" || run.device == "cpu" || run.device == "cuda", OptionError,
              "--device takes auto, cpu or cuda, not '{}'", run.device);
}

void complete_collective_timeout(TrainOptions& options) {
  constexpr double kMinute = 60, kWithoutWatch = 600;
  options.run.collective_timeout = options.job.hang_timeout > 0 ? options.job.hang_timeout + kMinute : kWithoutWatch;
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
  check_at_least("--files", checkpoint.files, 0);
  check_at_least("--keep-every", checkpoint.keep_every, 0);
  SHOAL_CHECK(!checkpoint.save_at_start || writes_checkpoints(options), OptionError,
              "--save-at-start needs a --checkpoint-dir");
  Cadence::parse(checkpoint.every);
  const std::string& async = checkpoint.async_save;
  SHOAL_CHECK(async == "wait" || async == "skip" || async == "off", OptionError,
              "--async-save takes wait, skip or off, not '{}'", async);
  SHOAL_CHECK(checkpoint.view == "on" || checkpoint.view == "off", OptionError,
              "--checkpoint-view takes on or off, not '{}'", checkpoint.view);
  const std::string& driver = checkpoint.output_driver;
  SHOAL_CHECK(driver == "posix" || driver == "mpio", OptionError, "--output-driver takes posix or mpio, not '{}'",
              driver);
  SHOAL_CHECK(checkpoint.stage_gib >= 0, OptionError, "--stage-gib {} is negative; 0 or nothing lets Shoal choose",
              checkpoint.stage_gib);
  SHOAL_CHECK(!checkpoint.resume.empty(), OptionError, "--resume takes auto, never or a path");
  match_rules(checkpoint);
  if (!writes_output(options)) return;
  SHOAL_CHECK(writes_checkpoints(options), OptionError,
              "--output {} is made from the last checkpoint: it needs a --checkpoint-dir", checkpoint.output.string());
  const std::string suffix = checkpoint.output.extension().string();
  SHOAL_CHECK(suffix == ".h5" || suffix == ".pt", OptionError,
              "--output must end in .h5 (HDF5) or .pt (PyTorch), not '{}'", checkpoint.output.string());
  if (checkpoint.output_driver == "mpio") hdf5::require_mpio("--output-driver mpio");
  SHOAL_CHECK(suffix == ".h5" || checkpoint.output_driver == "posix", OptionError,
              "--output-driver mpio writes HDF5: --output must end in .h5, not '{}'", checkpoint.output.string());
}

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

}  // namespace

optim::Schedule schedule_of(const OptimizerSettings& optimizer) {
  optim::Schedule schedule = optim::Schedule::parse(optimizer.schedule);
  schedule.warm_up_by(optimizer.warmup_type, optimizer.warmup_min_ratio);
  return schedule;
}

TrainOptions defaults_for(const models::ModelEntry& model) {
  TrainOptions options;
  options.model.name = model.name;
  options.sharding.wrap = model.defaults.wrap;
  options.optimizer.rule.name = model.defaults.optimizer;
  options.optimizer.learning_rate = model.defaults.learning_rate;
  options.optimizer.schedule = model.defaults.schedule;
  return options;
}

checkpoint::MatchRules match_rules(const CheckpointOptions& options) {
  return checkpoint::MatchRules::parse(options.allow_missing, options.allow_extra, options.rename);
}

fsdp::Accumulation parse_accumulate_mode(const std::string& text) {
  if (text == "reduce") return fsdp::Accumulation::reduce;
  if (text == "keep") return fsdp::Accumulation::keep;
  SHOAL_CHECK(text == "defer", OptionError, "--accumulate-mode takes defer, reduce or keep, not '{}'", text);
  return fsdp::Accumulation::defer;
}

fsdp::Accumulation accumulation_of(const ShardingOptions& sharding, std::int64_t micro_steps) {
  return micro_steps == 1 ? fsdp::Accumulation::none : parse_accumulate_mode(sharding.accumulate_mode);
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
  options.activation_offload = sharding.activation_offload;
  options.backward_prefetch_post = sharding.backward_prefetch_post;
  options.limit_all_gathers = sharding.limit_all_gathers;
  const std::int64_t check_replicas = parse_check_replicas(sharding.check_replicas);
  options.check_replicas_at_start = check_replicas >= 0;
  options.check_replicas_every = std::max<std::int64_t>(check_replicas, 0);
  return options;
}

void complete_and_check(TrainOptions& options) {
  check_model(options.model);
  check_data(options.data);
  check_batch(options.batch);
  check_optimizer(options.optimizer);
  check_sharding(options.sharding);
  check_job(options.job);
  if (options.run.collective_timeout == RunOptions::kAMinuteMore) complete_collective_timeout(options);
  check_run(options.run);
  const bool needs_data = !options.run.print_model && !options.run.dry_run;
  SHOAL_CHECK(!options.data.path.empty() || !needs_data, OptionError,
              "--data is missing: it names the folder with the training data");
  options.batch.deterministic = options.run.deterministic;
  SHOAL_CHECK(
      !options.run.deterministic || parse_accumulate_mode(options.sharding.accumulate_mode) != fsdp::Accumulation::keep,
      OptionError,
      "--deterministic cannot sum what --accumulate-mode keep has summed on each rank: use defer or reduce");
  complete_run(options);
  complete_checkpoint(options);
  if (options.job.run_dir.empty())
    options.job.run_dir = writes_checkpoints(options) ? options.checkpoint.directory / "run" : kNone;
  check_checkpoint(options);
  SHOAL_CHECK(!options.run.tensorboard || options.job.run_dir != kNone, OptionError,
              "--tensorboard writes into the run directory: give a --run-dir");
}

bool validates(const TrainOptions& options) { return options.data.test_path != kNone; }
bool writes_checkpoints(const TrainOptions& options) { return options.checkpoint.directory != kNone; }
bool writes_output(const TrainOptions& options) { return options.checkpoint.output != kNone; }

}  // namespace shoal::train
