#include "configs/accelerate.h"

#include <algorithm>
#include <array>

#include "configs/accelerate_fsdp.h"
#include "configs/config_file.h"
#include "configs/deepspeed.h"
#include "configs/section.h"
#include "configs/zero_stage.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

constexpr const char* kOption = "--accelerate-config";

enum class Engine { fsdp, deepspeed, data_parallel };

Engine engine_of(Section& root) {
  const std::string key = "distributed_type";
  const std::string kind = root.text_or_number(key).value_or("NO");
  if (kind == "FSDP") return Engine::fsdp;
  if (kind == "DEEPSPEED") return Engine::deepspeed;
  constexpr std::array kPlain{"NO", "no", "false", "MULTI_GPU", "MULTI_CPU"};
  SHOAL_CHECK(std::find(kPlain.begin(), kPlain.end(), kind) != kPlain.end(), OptionError,
              "{} is {}, but must be FSDP, DEEPSPEED, MULTI_GPU, MULTI_CPU or NO", root.name(key), kind);
  return Engine::data_parallel;
}

void translate_precision(Section& root) {
  const std::string key = "mixed_precision";
  std::string precision = root.text_or_number(key).value_or("no");
  if (root.is_on("fp16") && precision == "no") precision = "fp16";  // the form before 0.12
  if (precision == "no" || precision == "false") return;
  SHOAL_CHECK(precision == "fp16" || precision == "bf16", OptionError, "{} is '{}', but must be no, fp16 or bf16",
              root.name(key), precision);
  root.set(key, "param-dtype", precision);
}

// The launcher decides on the number of ranks: a file that names another was made for another job.
void compare_processes(Section& root, int ranks) {
  const std::string key = "num_processes";
  const auto processes = root.whole(key);
  if (!processes || *processes == -1 || *processes == ranks) return;
  SHOAL_CHECK(*processes >= 1, OptionError, "{} is {}, but must be at least 1", root.name(key), *processes);
  root.remark(fmt::format("{} is {}, but the launcher has started {}, which counts", key, *processes, ranks));
}

// Whether the shards have replicas, as in the hybrid strategies; there is no other parallelism.
bool translate_parallelism(Section parallelism) {
  for (const char* kind : {"tp", "cp", "sp"}) {
    const std::string key = fmt::format("parallelism_config_{}_size", kind);
    SHOAL_CHECK(parallelism.whole(key).value_or(1) <= 1, OptionError,
                "{} cannot be honoured: models are sharded over data-parallel ranks alone; it must be 1",
                parallelism.name(key));
  }
  const std::string replicas = "parallelism_config_dp_replicate_size", shards = "parallelism_config_dp_shard_size";
  const bool replicated = parallelism.whole(replicas).value_or(1) > 1;
  const auto shard_size = parallelism.whole(shards).value_or(1);
  if (replicated) parallelism.set_number(shards, "shard-size", shard_size);
  parallelism.leave_out({"parallelism_config_cp_comm_strategy", "parallelism_config_sp_backend",
                         "parallelism_config_sp_seq_length", "parallelism_config_sp_seq_length_is_variable",
                         "parallelism_config_sp_attn_implementation"});
  parallelism.finish();
  return replicated;
}

void translate_plugin_keys(Section& plugin) {
  translate_zero(plugin, {.stage = plugin.whole("zero_stage").value_or(2),
                          .stage_key = "zero_stage",
                          .optimizer_device = plugin.text("offload_optimizer_device").value_or("none"),
                          .optimizer_key = "offload_optimizer_device",
                          .param_device = plugin.text("offload_param_device").value_or("none"),
                          .param_key = "offload_param_device"});
  if (const auto steps = plugin.whole("gradient_accumulation_steps"))
    plugin.set_number("gradient_accumulation_steps", "accumulate", *steps);
  if (const auto norm = plugin.number("gradient_clipping"))
    plugin.set_number("gradient_clipping", "clip-grad-norm", *norm);
}

// As accelerate reads it, from where the program runs; or else beside the config that names it, as its templates have
// it.
std::filesystem::path named_file(const std::string& name, const std::filesystem::path& config) {
  const std::filesystem::path beside = config.parent_path() / name;
  return !std::filesystem::exists(name) && std::filesystem::exists(beside) ? beside : std::filesystem::path(name);
}

// The plug-in's own keys, or the file that says more.
void translate_plugin(Section plugin, const std::filesystem::path& config, int ranks) {
  const std::string file_key = "deepspeed_config_file";
  if (const auto file = plugin.text(file_key)) {
    for (const char* key : {"zero_stage", "offload_optimizer_device", "offload_param_device",
                            "gradient_accumulation_steps", "gradient_clipping"})
      SHOAL_CHECK(!plugin.has(key), OptionError, "{} contradicts {}: say it in that file, or name none",
                  plugin.name(key), plugin.path(file_key));
    translate_deepspeed_file(named_file(*file, config), plugin.name(file_key), ranks, plugin.out());
  } else {
    translate_plugin_keys(plugin);
  }
  plugin.pass_over({"zero3_init_flag", "zero3_save_16bit_model", "deepspeed_hostfile", "deepspeed_multinode_launcher",
                    "deepspeed_inclusion_filter", "deepspeed_exclusion_filter", "offload_optimizer_nvme_path",
                    "offload_param_nvme_path"});
  plugin.refuse({"deepspeed_moe_layer_cls_names"}, "there are no mixtures of experts");
  plugin.finish();
}

// What says how processes are started, and on which machines, which srun or mpirun has done already.
void pass_over_launching(Section& root) {
  root.pass_over({"compute_environment", "machine_rank", "num_machines", "main_process_ip", "main_process_port",
                  "rdzv_backend", "same_network", "main_training_function", "enable_cpu_affinity", "gpu_ids",
                  "mpirun_config", "debug", "deepspeed_config", "fsdp_config", "parallelism_config"});
  root.refuse({"tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "tpu_env", "tpu_vm", "downcast_bf16"},
              "this is no program for TPUs");
  root.refuse({"command_file", "commands"}, "there is no command but shoal train");
  root.refuse({"megatron_lm_config", "fp8_config"}, "there is neither Megatron-LM nor FP8 here");
  root.leave_out({"dynamo_config", "dynamo_backend", "ipex_config", "use_xpu"});
}

void translate_root(Section& root, Section fsdp, const std::filesystem::path& file, int ranks) {
  const Engine engine = engine_of(root);
  SHOAL_CHECK(root.text("compute_environment").value_or("LOCAL_MACHINE") == "LOCAL_MACHINE", OptionError,
              "{} is no LOCAL_MACHINE: jobs are started by srun or mpirun", root.name("compute_environment"));
  const auto parallelism = root.section("parallelism_config");
  const bool replicated = parallelism && translate_parallelism(*parallelism);
  if (engine == Engine::data_parallel) root.set("distributed_type", "strategy", "no_shard");
  if (engine == Engine::fsdp) translate_fsdp(std::move(fsdp), replicated);
  if (auto plugin = root.section("deepspeed_config"); plugin && engine == Engine::deepspeed)
    translate_plugin(*plugin, file, ranks);
  translate_precision(root);
  compare_processes(root, ranks);
  if (const auto steps = root.whole("gradient_accumulation_steps"))
    root.set_number("gradient_accumulation_steps", "accumulate", *steps);
  if (const auto norm = root.number("gradient_clipping")) root.set_number("gradient_clipping", "clip-grad-norm", *norm);
  if (root.is_on("use_cpu")) root.set("use_cpu", "device", "cpu");
  pass_over_launching(root);
  root.finish();
}

}  // namespace

Translation translate_accelerate(const std::filesystem::path& file, int ranks) {
  const std::string where = fmt::format("{} {}", kOption, file.string());
  const nlohmann::json tree = read_yaml(file, kOption);
  const bool has_fsdp = tree.contains("fsdp_config") && tree["fsdp_config"].is_object();
  const nlohmann::json fsdp =
      has_fsdp ? with_fsdp_prefix(tree["fsdp_config"], where) : nlohmann::json(nlohmann::json::object());
  Translation out;
  Section root(where, tree, out);
  translate_root(root, Section(where, fsdp, out, "fsdp_config."), file, ranks);
  return out;
}

}  // namespace shoal::configs
