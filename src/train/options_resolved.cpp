// The options of a run as text, for its first lines and for its checkpoints.
#include <fmt/ranges.h>

#include "train/options.h"

namespace shoal::train {
namespace {

constexpr const char* kNone = "none";

std::string on_or_off(bool value) { return value ? "on" : "off"; }

std::string list_or_none(const std::vector<std::string>& values) {
  return values.empty() ? kNone : fmt::format("{}", fmt::join(values, " "));
}

std::string path_or_none(const std::filesystem::path& path) { return path.empty() ? kNone : path.string(); }

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
          {"test-data", o.data.test_path.empty() ? "auto" : o.data.test_path.string()},
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
          {"reshard-after-forward", text(o.sharding.reshard_after_forward)},
          {"wrap", o.sharding.wrap},
          {"forward-prefetch", text(o.sharding.forward_prefetch)},
          {"backward-prefetch", o.sharding.backward_prefetch_post ? "post" : text(o.sharding.backward_prefetch)},
          {"limit-all-gathers", text(o.sharding.limit_all_gathers)},
          {"param-dtype", o.sharding.param_dtype},
          {"reduce-dtype", o.sharding.reduce_dtype},
          {"buffer-dtype", o.sharding.buffer_dtype},
          {"offload", o.sharding.offload},
          {"activation-checkpoint", o.sharding.activation_checkpoint},
          {"activation-offload", on_or_off(o.sharding.activation_offload)},
          {"check-replicas", o.sharding.check_replicas},
          {"accumulate-mode", o.sharding.accumulate_mode},
          {"optimizer", o.optimizer.rule.name},
          {"lr", text(o.optimizer.learning_rate)},
          {"momentum", text(o.optimizer.rule.momentum)},
          {"betas", fmt::format("{},{}", o.optimizer.rule.beta1, o.optimizer.rule.beta2)},
          {"eps", text(o.optimizer.rule.eps)},
          {"weight-decay", text(o.optimizer.rule.weight_decay)},
          {"schedule", o.optimizer.schedule},
          {"warmup", text(o.optimizer.warmup)},
          {"warmup-type", o.optimizer.warmup_type},
          {"warmup-min-ratio", text(o.optimizer.warmup_min_ratio)},
          {"no-decay", o.optimizer.no_decay},
          {"param-group", list_or_none(o.optimizer.param_groups)},
          {"clip-grad-norm", text(o.optimizer.clip_grad_norm)}};
}

NamedValues loss_scale_options(const TrainOptions& o) {
  const LossScaleOptions& scale = o.optimizer.loss_scale;
  return {{"loss-scale", text(scale.fixed)},
          {"initial-scale-power", text(scale.initial_power)},
          {"loss-scale-window", text(scale.window)},
          {"hysteresis", text(scale.hysteresis)},
          {"consecutive-hysteresis", on_or_off(scale.consecutive_hysteresis)},
          {"min-loss-scale", text(scale.least)}};
}

NamedValues run_options(const TrainOptions& o) {
  return {{"checkpoint-dir", o.checkpoint.directory.string()},
          {"checkpoint-every", o.checkpoint.every},
          {"keep", text(o.checkpoint.keep)},
          {"files", text(o.checkpoint.files)},
          {"async-save", o.checkpoint.async_save},
          {"checkpoint-view", o.checkpoint.view},
          {"stage-gib", text(o.checkpoint.stage_gib)},
          {"keep-every", text(o.checkpoint.keep_every)},
          {"save-at-start", on_or_off(o.checkpoint.save_at_start)},
          {"resume", o.checkpoint.resume},
          {"allow-missing", list_or_none(o.checkpoint.allow_missing)},
          {"allow-extra", list_or_none(o.checkpoint.allow_extra)},
          {"rename", list_or_none(o.checkpoint.rename)},
          {"output", o.checkpoint.output.string()},
          {"output-driver", o.checkpoint.output_driver},
          {"run-dir", o.job.run_dir.string()},
          {"requeue", o.job.requeue},
          {"max-requeues", text(o.job.max_requeues)},
          {"max-no-progress", text(o.job.max_no_progress)},
          {"time-limit", o.job.time_limit},
          {"time-margin", text(o.job.time_margin)},
          {"hang-timeout", text(o.job.hang_timeout)},
          {"seed", text(o.run.seed)},
          {"deterministic", on_or_off(o.run.deterministic)},
          {"device", o.run.device},
          {"log-every", text(o.run.log_every)},
          {"tensorboard", on_or_off(o.run.tensorboard)},
          {"peak-tflops", text(o.run.peak_tflops)},
          {"trace", path_or_none(o.run.trace)},
          {"collective-timeout", text(o.run.collective_timeout)}};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> resolved(const TrainOptions& options) {
  NamedValues all = input_options(options);
  for (const NamedValues& more :
       {shape_options(options.model.shape), course_options(options), loss_scale_options(options), run_options(options)})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace shoal::train
