#include "configs/config_text.h"

namespace shoal::configs {
namespace {

std::string fsdp(const std::string& keys) {
  return meaning(accelerate, "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 1\n" + keys);
}
std::string root(const std::string& keys) { return meaning(accelerate, "distributed_type: NO\n" + keys); }

TEST(Accelerate, StrategiesByNameAndByNumber) {
  const char* const kNames[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
  const char* const kOurs[] = {"full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2"};
  for (int i = 0; i < 5; ++i) {
    const std::string meant = std::string(" --strategy ") + kOurs[i];
    EXPECT_EQ(fsdp(std::string("  fsdp_sharding_strategy: ") + kNames[i]), meant);
    EXPECT_EQ(fsdp("  fsdp_sharding_strategy: " + std::to_string(i + 1)), meant);
    EXPECT_EQ(fsdp("  fsdp_sharding_strategy: '" + std::to_string(i + 1) + "'"), meant);
    EXPECT_EQ(fsdp(std::string("  fsdp_reshard_after_forward: ") + kNames[i]), meant);
  }
  EXPECT_EQ(fsdp("  fsdp_sharding_strategy: 6"),
            "fsdp_config.fsdp_sharding_strategy is '6', but must be one of FULL_SHARD (1), SHARD_GRAD_OP (2), NO_SHARD "
            "(3), HYBRID_SHARD (4), HYBRID_SHARD_ZERO2 (5)");
}

TEST(Accelerate, SaysTheSameInTheWordsOfFsdp2) {
  const auto fsdp2 = [](const std::string& keys) {
    return meaning(accelerate, "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n" + keys);
  };
  EXPECT_EQ(fsdp2(""), " --strategy full_shard");
  EXPECT_EQ(fsdp2("  fsdp_reshard_after_forward: true"), " --strategy full_shard");
  EXPECT_EQ(fsdp2("  fsdp_reshard_after_forward: 'false'"), " --strategy shard_grad_op");
  EXPECT_EQ(fsdp2("  reshard_after_forward: false\n  offload_params: true"),
            " --strategy shard_grad_op --offload params");
  EXPECT_EQ(fsdp2("  fsdp_reshard_after_forward: false\n  fsdp_sharding_strategy: FULL_SHARD"),
            "fsdp_config.fsdp_sharding_strategy contradicts fsdp_config.fsdp_reshard_after_forward: the one means "
            "--strategy full_shard, the other --strategy shard_grad_op");
  EXPECT_EQ(fsdp2("  version: 2"), "fsdp_config has the key 'fsdp_version' with and without its prefix");
  EXPECT_EQ(meaning(accelerate, "distributed_type: FSDP\nfsdp_config: {fsdp_version: 3}"),
            "fsdp_config.fsdp_version is 3, but must be 1 or 2");
}

TEST(Accelerate, Wrapping) {
  const std::string full = " --strategy full_shard";
  EXPECT_EQ(fsdp("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"), full);  // the model's own units
  EXPECT_EQ(fsdp("  fsdp_transformer_layer_cls_to_wrap: A,B"), full + " --wrap class:A,B");
  EXPECT_EQ(fsdp("  fsdp_transformer_layer_cls_to_wrap: [A, B]"), full + " --wrap class:A,B");
  EXPECT_EQ(fsdp("  fsdp_auto_wrap_policy: SIZE_BASED_WRAP"), full + " --wrap size:100000000");
  EXPECT_EQ(fsdp("  fsdp_auto_wrap_policy: 2\n  fsdp_min_num_params: 2e4"), full + " --wrap size:20000");
  EXPECT_EQ(fsdp("  fsdp_auto_wrap_policy: NO_WRAP"), full + " --wrap none");
  EXPECT_EQ(fsdp("  fsdp_min_num_params: many"),
            "fsdp_config.fsdp_min_num_params is \"many\", but must be a whole number");
  const Translation both = accelerate(
      "distributed_type: FSDP\n"
      "fsdp_config: {fsdp_auto_wrap_policy: SIZE_BASED_WRAP, fsdp_min_num_params: 9, "
      "fsdp_transformer_layer_cls_to_wrap: A}");
  EXPECT_EQ(both.left_out, std::vector<std::string>{"fsdp_config.fsdp_transformer_layer_cls_to_wrap"});
}

TEST(Accelerate, OtherKeysOfFsdp) {
  const std::string full = " --strategy full_shard";
  EXPECT_EQ(fsdp("  fsdp_offload_params: yes"), full + " --offload params");
  EXPECT_EQ(fsdp("  fsdp_backward_prefetch: BACKWARD_POST"), full + " --backward-prefetch post");
  EXPECT_EQ(fsdp("  fsdp_backward_prefetch: NO_PREFETCH"), full + " --backward-prefetch none");
  EXPECT_EQ(fsdp("  fsdp_forward_prefetch: true"), full + " --forward-prefetch 1");
  EXPECT_EQ(fsdp("  fsdp_activation_checkpointing: true"), full + " --activation-checkpoint full");
  EXPECT_EQ(fsdp("  fsdp_state_dict_type: 3"), full);
  EXPECT_EQ(
      fsdp("  fsdp_state_dict_type: WHOLE"),
      "fsdp_config.fsdp_state_dict_type is 'WHOLE', but must be one of FULL_STATE_DICT (1), LOCAL_STATE_DICT (2), "
      "SHARDED_STATE_DICT (3)");
  EXPECT_EQ(
      fsdp("  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: false"),
      "fsdp_config.fsdp_cpu_ram_efficient_loading is true, which contradicts fsdp_config.fsdp_sync_module_states: "
      "false: who has no weights must be sent them");
  EXPECT_EQ(fsdp("  fsdp_ofload_params: true"),
            "fsdp_config.fsdp_ofload_params is no known key; did you mean 'fsdp_offload_params'?");
  EXPECT_EQ(fsdp("  fsdp_offload_params: perhaps"),
            "fsdp_config.fsdp_offload_params is \"perhaps\", but must be true or false");
  const Setting loading =
      accelerate("distributed_type: FSDP\nfsdp_config: {fsdp_sync_module_states: true}").settings[1];
  EXPECT_EQ(loading, (Setting{"sync-module-states", "", "fsdp_config.fsdp_sync_module_states", "init-from"}));
}

TEST(Accelerate, Xla) {
  EXPECT_EQ(fsdp("  xla: false\n  xla_fsdp_grad_ckpt: true"), " --strategy full_shard --activation-checkpoint full");
  EXPECT_EQ(fsdp("  xla: true"),
            "fsdp_config.xla cannot be honoured: this is no program for PyTorch/XLA; leave it out");
}

TEST(Accelerate, KeysBesideFsdp) {
  EXPECT_EQ(root("mixed_precision: bf16\nuse_cpu: true\ngradient_accumulation_steps: 8"),
            " --strategy no_shard --param-dtype bf16 --accumulate 8 --device cpu");
  EXPECT_EQ(root("mixed_precision: no"), " --strategy no_shard");
  EXPECT_EQ(root("fp16: true"), " --strategy no_shard --param-dtype fp16");
  EXPECT_EQ(root("mixed_precision: fp8"), "mixed_precision is 'fp8', but must be no, fp16 or bf16");
  EXPECT_EQ(root("tpu_use_sudo: true"), "tpu_use_sudo cannot be honoured: this is no program for TPUs");
  EXPECT_EQ(root("compute_environment: AMAZON_SAGEMAKER"),
            "compute_environment is no LOCAL_MACHINE: jobs are started by srun or mpirun");
  EXPECT_EQ(meaning(accelerate, "distributed_type: MEGATRON_LM"),
            "distributed_type is MEGATRON_LM, but must be FSDP, DEEPSPEED, MULTI_GPU, MULTI_CPU or NO");
  EXPECT_EQ(root("num_proceses: 2"), "num_proceses is no known key; did you mean 'num_processes'?");
  EXPECT_EQ(accelerate("num_processes: 2", 2).remarks.size(), 0U);
  EXPECT_EQ(
      warning_of(accelerate("num_processes: 2\ndynamo_config: {dynamo_backend: INDUCTOR}")),
      "num_processes is 2, but the launcher has started 4, which counts; without a counterpart here, and left out: "
      "dynamo_config");
  EXPECT_EQ(
      root("parallelism_config: {parallelism_config_tp_size: 2}"),
      "parallelism_config.parallelism_config_tp_size cannot be honoured: models are sharded over data-parallel ranks "
      "alone; it must be 1");
}

TEST(Accelerate, DeepSpeedPlugin) {
  const auto plugin = [](const std::string& keys) {
    return meaning(accelerate, "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n" + keys);
  };
  EXPECT_EQ(plugin("  offload_param_device: cpu\n  gradient_clipping: 0.5"),
            " --strategy zero3 --offload params --clip-grad-norm 0.5");
  EXPECT_EQ(plugin("  offload_optimizer_device: nvme"),
            "deepspeed_config.offload_optimizer_device is nvme, which cannot be honoured: it must be cpu or none");
  EXPECT_EQ(
      plugin("  deepspeed_config_file: ds.json"),
      "deepspeed_config.zero_stage contradicts deepspeed_config.deepspeed_config_file: say it in that file, or name "
      "none");
}

TEST(Accelerate, FilesThatCannotBeRead) {
  EXPECT_EQ(meaning(accelerate, "a: [1, 2\nb: 3\n"), "no YAML at line 2, column 2: end of sequence flow not found");
  EXPECT_EQ(meaning(accelerate, "num_processes: 1\nnum_processes: 2\n"),
            "the key 'num_processes' is there twice in one block, again at line 2, column 1");
  EXPECT_EQ(meaning(accelerate, "hello"), "the file is no block of keys (name: value)");
  EXPECT_EQ(meaning(accelerate, ""), "the file is no block of keys (name: value)");
  EXPECT_THROW(translate_accelerate("nowhere.yaml", 1), OptionError);
}

}  // namespace
}  // namespace shoal::configs
