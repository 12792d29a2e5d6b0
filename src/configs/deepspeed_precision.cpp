#include "configs/deepspeed_parts.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

// What the block does not name is DeepSpeed's default; "auto" leaves it to the command line.
void set_or_default(Section& fp16, const char* key, const char* option, double fallback) {
  const auto given = fp16.number(key);
  if (given || !fp16.has(key)) fp16.set_number(key, option, given.value_or(fallback));
}

void translate_loss_scale(Section& fp16, bool enabled) {
  const double fixed = fp16.number("loss_scale").value_or(0);
  if (!enabled) {
    fp16.pass_over(
        {"initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale"});
  } else if (fixed != 0) {
    fp16.set_number("loss_scale", "loss-scale", fixed);
    fp16.pass_over(
        {"initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale"});
  } else {
    constexpr double kPower = 16, kWindow = 1000, kHysteresis = 2, kLeast = 1;
    set_or_default(fp16, "initial_scale_power", "initial-scale-power", kPower);
    set_or_default(fp16, "loss_scale_window", "loss-scale-window", kWindow);
    set_or_default(fp16, "hysteresis", "hysteresis", kHysteresis);
    set_or_default(fp16, "min_loss_scale", "min-loss-scale", kLeast);
    if (fp16.is_on("consecutive_hysteresis")) fp16.set("consecutive_hysteresis", "consecutive-hysteresis");
  }
  fp16.pass_over({"auto_cast", "fused_mode"});
}

bool translate_type(Section& root, const std::string& key, const std::string& dtype) {
  auto block = root.section(key);
  if (!block) return false;
  const bool enabled = block->is_on("enabled");
  if (enabled) block->set("enabled", "param-dtype", dtype);
  if (dtype == "fp16") translate_loss_scale(*block, enabled);
  block->refuse({"fp16_master_weights_and_grads", "bf16_master_weights_and_grads", "bf16_optimizer_states"},
                "masters, gradients' sums and states are fp32");
  block->pass_over({"immediate_grad_update", "check_grad_overflow", "check_overflow", "auto_cast"});
  block->finish();
  return enabled;
}

// A type as DeepSpeed writes it, or as torch does.
std::optional<std::string> dtype_of(Section& section, const std::string& key) {
  const auto text = section.text(key);
  if (!text || *text == "none") return std::nullopt;
  if (*text == "fp32" || *text == "float32") return "fp32";
  if (*text == "fp16" || *text == "float16" || *text == "half") return "fp16";
  if (*text == "bf16" || *text == "bfp16" || *text == "bfloat16") return "bf16";
  throw OptionError("{} is '{}', but must be fp32, fp16 or bf16", section.name(key), *text);
}

}  // namespace

void translate_precision_blocks(Section& root) {
  const bool fp16 = translate_type(root, "fp16", "fp16");
  bool bf16 = false;
  for (const char* key : {"bf16", "bfloat16"}) bf16 = translate_type(root, key, "bf16") || bf16;
  SHOAL_CHECK(!fp16 || !bf16, OptionError, "{} contradicts bf16.enabled: switch one of them on",
              root.name("fp16.enabled"));
  if (const auto dtype = dtype_of(root, "communication_data_type"))
    root.set("communication_data_type", "reduce-dtype", *dtype);
  if (auto types = root.section("data_types")) {
    if (const auto dtype = dtype_of(*types, "grad_accum_dtype"); dtype.value_or("fp32") != "fp32")
      types->remark("data_types.grad_accum_dtype is fp32 here, not " + *dtype);
    types->finish();
  }
}

}  // namespace shoal::configs
