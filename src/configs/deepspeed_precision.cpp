#include "configs/deepspeed_parts.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

// The scale is torch's: from 2^16, halved at each overflow, doubled after 2000 steps without.
void translate_loss_scale(Section& fp16) {
  const double fixed = fp16.number("loss_scale").value_or(0);
  SHOAL_CHECK(fixed == 0, OptionError,
              "{} is {}, which cannot be honoured: the scale follows the overflows; it must be 0",
              fp16.name("loss_scale"), fixed);
  const auto differs = [&](const char* key, std::int64_t ours) {
    if (const auto value = fp16.whole(key); value && *value != ours)
      fp16.remark(fmt::format("{} is {} here, not {}", fp16.path(key), ours, *value));
  };
  differs("initial_scale_power", 16);
  differs("loss_scale_window", 2000);
  differs("hysteresis", 1);
  if (fp16.number("min_loss_scale").value_or(1) != 1) fp16.leave_out({"min_loss_scale"});
  fp16.pass_over({"consecutive_hysteresis", "auto_cast", "fused_mode"});
}

bool translate_type(Section& root, const std::string& key, const std::string& dtype) {
  auto block = root.section(key);
  if (!block) return false;
  const bool enabled = block->is_on("enabled");
  if (dtype == "fp16") translate_loss_scale(*block);
  block->refuse({"fp16_master_weights_and_grads", "bf16_master_weights_and_grads", "bf16_optimizer_states"},
                "masters, gradients' sums and states are fp32");
  block->pass_over({"immediate_grad_update", "check_grad_overflow", "check_overflow", "auto_cast"});
  block->finish();
  if (enabled) block->set("enabled", "param-dtype", dtype);
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
