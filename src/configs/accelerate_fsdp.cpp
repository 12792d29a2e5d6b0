#include "configs/accelerate_fsdp.h"

#include <algorithm>
#include <span>

#include "core/check.h"

namespace shoal::configs {
namespace {

// A word of accelerate, by name or by its number from 1, and what it means for an option.
struct Word {
  const char* name;
  const char* meaning;
};

constexpr Word kStrategies[] = {{"FULL_SHARD", "full_shard"},
                                {"SHARD_GRAD_OP", "shard_grad_op"},
                                {"NO_SHARD", "no_shard"},
                                {"HYBRID_SHARD", "hybrid_shard"},
                                {"HYBRID_SHARD_ZERO2", "hybrid_shard_zero2"}};
constexpr Word kWrapPolicies[] = {
    {"TRANSFORMER_BASED_WRAP", "class"}, {"SIZE_BASED_WRAP", "size"}, {"NO_WRAP", "none"}};
constexpr Word kPrefetches[] = {{"BACKWARD_PRE", "pre"}, {"BACKWARD_POST", "post"}, {"NO_PREFETCH", "none"}};
// Checkpoints are written in parts, and whole weights to --output, whichever it is.
constexpr Word kStateDicts[] = {{"FULL_STATE_DICT", ""}, {"LOCAL_STATE_DICT", ""}, {"SHARDED_STATE_DICT", ""}};

std::optional<std::string> word_of(Section& fsdp, const std::string& key, std::span<const Word> words) {
  const auto text = fsdp.text_or_number(key);
  if (!text) return std::nullopt;
  std::string upper = *text, all;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (upper == words[i].name || *text == std::to_string(i + 1)) return words[i].meaning;
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", words[i].name, i + 1);
  }
  throw OptionError("{} is '{}', but must be one of {}", fsdp.name(key), *text, all);
}

// FSDP 2 says by a flag what FSDP 1 says by the name of a strategy, and by a mesh whether shards have replicas.
void translate_strategy(Section& fsdp, bool replicated) {
  const std::string reshard = "fsdp_reshard_after_forward", strategy = "fsdp_sharding_strategy";
  const auto set = [&](const std::string& key, std::string name) {
    if (replicated && name == "full_shard") name = "hybrid_shard";
    if (replicated && name == "shard_grad_op") name = "hybrid_shard_zero2";
    fsdp.set(key, "strategy", name);
  };
  const auto text = fsdp.text_or_number(reshard);
  if (text == "true" || text == "false") {
    set(reshard, text == "true" ? "full_shard" : "shard_grad_op");
  } else if (const auto word = word_of(fsdp, reshard, kStrategies)) {
    set(reshard, *word);
  }
  if (const auto word = word_of(fsdp, strategy, kStrategies)) set(strategy, *word);
  if (!fsdp.has(reshard) && !fsdp.has(strategy)) set("fsdp_version", "full_shard");
}

// Without a class the model's own units are meant, which are its transformer layers.
void translate_wrapping(Section& fsdp) {
  constexpr std::int64_t kDefaultLeast = 100'000'000;
  const std::string policy_key = "fsdp_auto_wrap_policy", classes_key = "fsdp_transformer_layer_cls_to_wrap",
                    least_key = "fsdp_min_num_params";
  const auto policy = word_of(fsdp, policy_key, kWrapPolicies);
  const auto classes = fsdp.list_of_words(classes_key);
  const auto least = fsdp.whole(least_key);
  SHOAL_CHECK(least.value_or(0) >= 0, OptionError, "{} is {}, but must be at least 0", fsdp.name(least_key), *least);
  const bool by_size = policy ? policy == "size" : !classes && least.value_or(0) > 0;
  const bool by_class = classes && !classes->empty() && policy.value_or("class") == "class";
  if (by_size) {
    fsdp.set(least_key, "wrap", fmt::format("size:{}", least.value_or(kDefaultLeast)));
  } else if (policy == "none") {
    fsdp.set(policy_key, "wrap", "none");
  } else if (by_class) {
    fsdp.set(classes_key, "wrap", "class:" + *classes);
  }
  if (!by_class) fsdp.leave_out({classes_key.c_str()});
  if (!by_size && least.value_or(0) > 0) fsdp.leave_out({least_key.c_str()});
}

// Rank 0 reads the weights and sends the others their parts: only where there is a file to read.
void translate_loading(Section& fsdp) {
  const std::string efficient = "fsdp_cpu_ram_efficient_loading", sync = "fsdp_sync_module_states";
  SHOAL_CHECK(!fsdp.is_on(efficient) || fsdp.flag(sync).value_or(true), OptionError,
              "{} is true, which contradicts {}: false: who has no weights must be sent them", fsdp.name(efficient),
              fsdp.path(sync));
  for (const std::string& key : {efficient, sync})
    if (fsdp.is_on(key)) fsdp.set(key, "sync-module-states", "", "init-from");
}

// Torch's XLA is another engine. Its recomputation is a thing that this one has too.
void translate_xla(Section& fsdp) {
  fsdp.refuse({"xla", "xla_fsdp_v2"}, "this is no program for PyTorch/XLA; leave it out");
  fsdp.leave_out({"xla_fsdp_settings"});
  for (const char* key : {"fsdp_activation_checkpointing", "xla_fsdp_grad_ckpt"})
    if (fsdp.is_on(key)) fsdp.set(key, "activation-checkpoint", "full");
}

}  // namespace

nlohmann::json with_fsdp_prefix(const nlohmann::json& block, const std::string& where) {
  nlohmann::json prefixed = nlohmann::json::object();
  for (const auto& [key, value] : block.items()) {
    const std::string name = key.starts_with("fsdp_") || key.starts_with("xla") ? key : "fsdp_" + key;
    SHOAL_CHECK(!prefixed.contains(name), OptionError, "{}: fsdp_config has the key '{}' with and without its prefix",
                where, name);
    prefixed[name] = value;
  }
  return prefixed;
}

void translate_fsdp(Section fsdp, bool replicated) {
  const std::string version = "fsdp_version";
  const auto number = fsdp.whole(version).value_or(1);
  SHOAL_CHECK(number == 1 || number == 2, OptionError, "{} is {}, but must be 1 or 2", fsdp.name(version), number);
  translate_strategy(fsdp, replicated);
  translate_wrapping(fsdp);
  for (const char* key : {"fsdp_offload_params", "fsdp_cpu_offload"})
    if (fsdp.is_on(key)) fsdp.set(key, "offload", "params");
  for (const char* key : {"fsdp_backward_prefetch", "fsdp_backward_prefetch_policy"})
    if (const auto word = word_of(fsdp, key, kPrefetches)) fsdp.set(key, "backward-prefetch", *word);
  // Without it FSDP still gathers ahead, as far as the CPU is ahead of the GPU: the default here too.
  if (fsdp.is_on("fsdp_forward_prefetch")) fsdp.set("fsdp_forward_prefetch", "forward-prefetch", "1");
  translate_loading(fsdp);
  translate_xla(fsdp);
  word_of(fsdp, "fsdp_state_dict_type", kStateDicts);
  for (const char* key : {"fsdp_use_orig_params", "fsdp_limit_all_gathers", "fsdp_cpu_offload_pin_memory"})
    if (!fsdp.flag(key).value_or(true)) fsdp.leave_out({key});
  fsdp.refuse({"fsdp_ignored_modules"}, "all modules are sharded");
  fsdp.finish();
}

}  // namespace shoal::configs
