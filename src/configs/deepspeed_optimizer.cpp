#include <algorithm>

#include "configs/deepspeed_parts.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void set_if_given(Section& params, const std::string& key, const std::string& option) {
  if (const auto number = params.number(key)) params.set_number(key, option, *number);
}

// A value that is fixed here.
void expect(Section& params, const std::string& key, double ours) {
  const auto value = params.number(key);
  SHOAL_CHECK(!value || *value == ours, OptionError, "{} is {}, which cannot be honoured: it must be {}",
              params.name(key), value.value_or(0), ours);
}

// DeepSpeed's Adam decouples the weight decay, as AdamW does, unless it is told not to.
void translate_adam(Section& root, Section& params, const std::string& type) {
  const bool decoupled = params.flag("adam_w_mode").value_or(true) || type == "adamw";
  root.set("optimizer", "optimizer", decoupled ? "adamw" : "adam");
  if (const auto betas = params.numbers("betas")) {
    SHOAL_CHECK(betas->size() == 2, OptionError, "{} must be two numbers", params.name("betas"));
    params.set("betas", "betas", fmt::format("{},{}", (*betas)[0], (*betas)[1]));
  }
  set_if_given(params, "eps", "eps");
  params.refuse({"amsgrad"}, "Adam keeps two moments here");
  SHOAL_CHECK(params.flag("bias_correction").value_or(true), OptionError, "{} is false, which cannot be honoured",
              params.name("bias_correction"));
  params.pass_over(
      {"torch_adam", "adam_w_mode", "set_grad_none", "fused", "foreach", "capturable", "fp32_optimizer_states"});
}

void translate_sgd(Section& root, Section& params) {
  root.set("optimizer", "optimizer", "sgd");
  set_if_given(params, "momentum", "momentum");
  params.refuse({"nesterov", "maximize"}, "there is no such form of SGD here");
  expect(params, "dampening", 0);
  params.pass_over({"fused", "foreach"});
}

void translate_adadelta(Section& root, Section& params) {
  root.set("optimizer", "optimizer", "adadelta");
  expect(params, "rho", 0.9);
  expect(params, "eps", 1e-6);
  params.pass_over({"foreach"});
}

// The rate where the block has none: that of DeepSpeed's and torch's optimizers. "auto" leaves it to the command line.
void translate_rate(Section& params, double otherwise) {
  const auto rate = params.number("lr");
  if (rate || !params.has("lr")) params.set_number("lr", "lr", rate.value_or(otherwise));
}

// The scheduler's rate is what the optimizer gets.
bool scheduler_sets_rate(Section& root) {
  auto scheduler = root.section("scheduler");
  if (!scheduler) return false;
  const bool has_default = scheduler->text("type") == "WarmupDecayLR";
  auto params = scheduler->section("params");
  if (!params) return has_default;
  return params->number("warmup_max_lr") || (has_default && !params->has("warmup_max_lr"));
}

}  // namespace

void translate_optimizer(Section& root) {
  auto optimizer = root.section("optimizer");
  if (!optimizer) return;
  const std::string type = lower(optimizer->text("type").value_or(""));
  SHOAL_CHECK(!type.empty(), OptionError, "{} is missing", optimizer->name("type"));
  const nlohmann::json none = nlohmann::json::object();
  Section params =
      optimizer->section("params").value_or(Section(optimizer->where(), none, root.out(), "optimizer.params."));
  if (type == "adam" || type == "adamw") {
    translate_adam(root, params, type);
  } else if (type == "sgd") {
    translate_sgd(root, params);
  } else {
    SHOAL_CHECK(type == "adadelta", OptionError,
                "{} is {}, which cannot be honoured: the optimizers are Adam, AdamW, SGD and Adadelta",
                optimizer->name("type"), optimizer->text("type").value_or(""));
    translate_adadelta(root, params);
  }
  if (!scheduler_sets_rate(root)) translate_rate(params, type == "adadelta" ? 1.0 : 1e-3);
  set_if_given(params, "weight_decay", "weight-decay");
  if (params.number("max_grad_norm").value_or(0) > 0) params.leave_out({"max_grad_norm"});
  params.pass_over({"lr"});
  params.finish();
  optimizer->pass_over({"legacy_fusion"});
  optimizer->finish();
}

}  // namespace shoal::configs
