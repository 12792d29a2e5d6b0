#include "configs/deepspeed.h"

#include "configs/config_file.h"
#include "configs/deepspeed_parts.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

constexpr const char* kOption = "--deepspeed-config";

// In DeepSpeed the model's code recomputes, and this block says how. Here the engine does, where a value is asked for.
void translate_recomputation(Section& root) {
  const std::string key = "activation_checkpointing";
  auto block = root.section(key);
  if (!block) return;
  const bool offload = block->is_on("cpu_checkpointing");
  bool wanted = block->whole("number_checkpoints").value_or(0) > 0 || offload;
  for (const char* flag : {"partition_activations", "partitioned_activations", "contiguous_memory_optimization"})
    wanted = block->is_on(flag) || wanted;
  if (wanted) root.set(key, "activation-checkpoint", "full");
  if (offload) block->set("cpu_checkpointing", "activation-offload");
  if (!wanted) root.remark(key + " switches nothing on: give --activation-checkpoint full to recompute");
  block->pass_over({"synchronize_checkpoint_boundary", "profile"});
  block->finish();
}

void translate_rest(Section& root) {
  if (const auto norm = root.number("gradient_clipping")) root.set_number("gradient_clipping", "clip-grad-norm", *norm);
  if (const auto steps = root.whole("steps_per_print")) root.set_number("steps_per_print", "log-every", *steps);
  const std::string op = root.text("gradient_allreduce_op").value_or("mean");
  SHOAL_CHECK(op == "mean", OptionError, "{} is '{}', which cannot be honoured: gradients are means; it must be mean",
              root.name("gradient_allreduce_op"), op);
}

// What is another kind of training, and what only changes speed or output.
void sort_out(Section& root) {
  root.refuse({"amp", "torch_autocast"}, "parameters are cast as a whole: use bf16 or fp16");
  root.refuse({"sparse_gradients", "sparse_attention"}, "gradients and attention are dense");
  root.refuse({"progressive_layer_drop", "curriculum_learning", "data_efficiency", "eigenvalue", "compression_training",
               "quantize_training", "weight_quantization", "hybrid_engine", "elasticity", "autotuning", "pipeline",
               "tensor_parallel", "zenflow", "expert_parallel"},
              "there is no such thing here; leave it out");
  SHOAL_CHECK(root.whole("sequence_parallel_size").value_or(1) <= 1, OptionError, "{} cannot be honoured: it must be 1",
              root.name("sequence_parallel_size"));
  root.leave_out({"prescale_gradients",
                  "gradient_predivide_factor",
                  "disable_allgather",
                  "wall_clock_breakdown",
                  "memory_breakdown",
                  "dump_state",
                  "flops_profiler",
                  "comms_logger",
                  "tensorboard",
                  "wandb",
                  "csv_monitor",
                  "comet",
                  "aio",
                  "nebula",
                  "checkpoint",
                  "compile",
                  "timers",
                  "graph_harvesting",
                  "dataloader_drop_last",
                  "seq_parallel_communication_data_type",
                  "use_data_before_expert_parallelism",
                  "use_node_local_storage",
                  "vocabulary_size"});
  root.pass_over({"zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "managed_gradient_accumulation"});
}

}  // namespace

void translate_deepspeed_file(const std::filesystem::path& file, const std::string& option, int ranks,
                              Translation& out) {
  const nlohmann::json tree = read_json(file, option);
  Section root(fmt::format("{} {}", option, file.string()), tree, out);
  translate_zero_block(root, ranks);
  translate_precision_blocks(root);
  translate_batch(root, ranks);
  translate_optimizer(root);
  translate_scheduler(root);
  translate_recomputation(root);
  translate_rest(root);
  sort_out(root);
  root.finish();
}

Translation translate_deepspeed(const std::filesystem::path& file, int ranks) {
  Translation out;
  translate_deepspeed_file(file, kOption, ranks, out);
  return out;
}

}  // namespace shoal::configs
