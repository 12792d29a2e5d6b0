#include "configs/deepspeed_parts.h"
#include "configs/zero_stage.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

// "cpu", "none", or what else the block says. `old_keys` are flags of before there was a block.
std::string device_of(Section& zero, const std::string& key, std::initializer_list<const char*> old_keys) {
  std::string device = "none";
  for (const char* old : old_keys)
    if (zero.is_on(old)) device = "cpu";
  auto block = zero.section(key);
  if (!block) return device;
  device = block->text("device").value_or("none");
  if (device != "none" && block->number("ratio").value_or(1) < 1)
    block->remark(block->path("ratio") + " is 1 here: all or nothing is offloaded");
  block->pass_over({"ratio", "nvme_path", "pin_memory", "buffer_count", "buffer_size", "max_in_cpu", "fast_init",
                    "pipeline_read", "pipeline_write", "pipeline", "super_offload", "cpuadam_cores_perc"});
  block->finish();
  return device;
}

// ZeRO++: units stay whole among the ranks of a node from forward to backward. Among all ranks that is stage 3 itself.
void translate_hierarchy(Section& zero, int ranks) {
  const std::string key = "zero_hpz_partition_size";
  const auto size = zero.whole(key).value_or(1);
  if (size == 1 || size == ranks) return;
  SHOAL_CHECK(size > 1 && ranks % size == 0, OptionError, "{} is {}, but must divide the {} ranks", zero.name(key),
              size, ranks);
  zero.set_number(key, "reshard-after-forward", size);
}

void leave_out_tuning(Section& zero) {
  zero.refuse({"zenflow"}, "there is no such thing here; leave it out");
  zero.leave_out({"zero_quantized_weights",
                  "zero_quantized_nontrainable_weights",
                  "zero_quantized_gradients",
                  "zeropp_loco_param",
                  "sub_group_size",
                  "reduce_bucket_size",
                  "allgather_bucket_size",
                  "stage3_prefetch_bucket_size",
                  "prefetch_bucket_size",
                  "stage3_param_persistence_threshold",
                  "param_persistence_threshold",
                  "stage3_model_persistence_threshold",
                  "model_persistence_threshold",
                  "stage3_max_live_parameters",
                  "max_live_parameters",
                  "stage3_max_reuse_distance",
                  "max_reuse_distance",
                  "stage3_module_granularity_threshold",
                  "module_granularity_threshold",
                  "memory_efficient_linear",
                  "stage3_use_all_reduce_for_fetch_params",
                  "use_all_reduce_for_fetch_params",
                  "stage3_allgather_sequential",
                  "allgather_sequential",
                  "stage3_partition_stream_chunk_size",
                  "mics_hierarchical_params_gather",
                  "leaf_module",
                  "round_robin_gradients",
                  "parameter_alignment",
                  "use_multi_rank_bucket_allreduce"});
}

// What is done anyway, or is about DeepSpeed's own checkpoints and checks.
void pass_over_habits(Section& zero) {
  zero.pass_over({"contiguous_gradients",
                  "reduce_scatter",
                  "allgather_partitions",
                  "overlap_comm",
                  "stage",
                  "load_from_fp32_weights",
                  "elastic_checkpoint",
                  "cpu_offload_use_pin_memory",
                  "compute_grad_norm",
                  "stage3_gather_16bit_weights_on_model_save",
                  "gather_16bit_weights_on_model_save",
                  "stage3_gather_fp16_weights_on_model_save",
                  "ignore_unused_parameters",
                  "legacy_stage1",
                  "override_module_apply",
                  "pipeline_loading_checkpoint",
                  "log_trace_cache_warnings",
                  "enable_sanity_checks",
                  "save_muon_momentum_buffer_in_memory",
                  "offload_optimizer",
                  "offload_param"});
}

}  // namespace

void translate_zero_block(Section& root, int ranks) {
  const std::string key = "zero_optimization";
  if (root.is_boolean(key)) {  // the form of DeepSpeed's first versions
    root.set(key, "strategy", root.is_on(key) ? "zero1" : "no_shard");
    return;
  }
  auto zero = root.section(key);
  if (!zero) {
    root.set(key, "strategy", "no_shard");
    return;
  }
  const auto mics = zero->whole("mics_shard_size").value_or(-1);  // MiCS: replicas of stage 3
  translate_zero(*zero, {.stage = zero->whole("stage").value_or(0),
                         .stage_key = "stage",
                         .optimizer_device = device_of(*zero, "offload_optimizer", {"cpu_offload"}),
                         .optimizer_key = "offload_optimizer",
                         .param_device = device_of(*zero, "offload_param", {"cpu_offload_param", "cpu_offload_params"}),
                         .param_key = "offload_param",
                         .replicated = mics > 0});
  if (mics > 0) zero->set_number("mics_shard_size", "shard-size", mics);
  translate_hierarchy(*zero, ranks);
  leave_out_tuning(*zero);
  pass_over_habits(*zero);
  zero->finish();
}

}  // namespace shoal::configs
