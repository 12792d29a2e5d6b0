#include <optional>

#include "configs/deepspeed_parts.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

// `least`: where the warm-up begins, as a part of the highest rate; nothing where that is not known.
void translate_warmup(Section& params, const std::string& least_key, std::optional<double> least) {
  const auto steps = params.whole("warmup_num_steps");
  SHOAL_CHECK(steps.value_or(0) >= 0, OptionError, "{} is {}, but must be at least 0", params.name("warmup_num_steps"),
              *steps);
  constexpr std::int64_t kDefault = 1000;
  if (steps || !params.has("warmup_num_steps"))
    params.set_number("warmup_num_steps", "warmup", steps.value_or(kDefault));
  const std::string shape = params.text("warmup_type").value_or("log");
  SHOAL_CHECK(shape == "log" || shape == "linear", OptionError, "{} is '{}', but must be log or linear",
              params.name("warmup_type"), shape);
  const bool warms_up = steps.value_or(params.has("warmup_num_steps") ? 0 : kDefault) > 1;
  if (shape == "log" && warms_up) params.set("warmup_type", "warmup-type", "log");
  if (!least)
    params.remark(fmt::format("the warm-up does not begin at {}, since the highest rate is not in this block",
                              params.path(least_key)));
  else if (*least != 0)
    params.set_number(least_key, "warmup-min-ratio", *least);
}

// Of WarmupLR and WarmupDecayLR, whose least rate is not a part of the highest but a rate.
std::optional<double> least_ratio(Section& params, std::optional<double> highest) {
  const double least = params.number("warmup_min_lr").value_or(0);
  if (least == 0) return 0;
  return highest && *highest > 0 ? std::optional(least / *highest) : std::nullopt;
}

void translate_length(Section& params) {
  const auto steps = params.whole("total_num_steps");
  if (steps) params.set_number("total_num_steps", "max-steps", *steps);
  SHOAL_CHECK(steps || params.has("total_num_steps"), OptionError,
              "{} is missing; \"auto\" leaves it to the command line", params.name("total_num_steps"));
}

// DeepSpeed's default of 0.001 where the block has none, but for WarmupLR, which takes the optimizer's.
std::optional<double> translate_highest(Section& params, bool has_default) {
  auto rate = params.number("warmup_max_lr");
  if (!rate && has_default && !params.has("warmup_max_lr")) rate = 1e-3;
  if (rate) params.set_number("warmup_max_lr", "lr", *rate);
  return rate;
}

void translate_by_type(Section& scheduler, Section& params, const std::string& type) {
  if (type == "WarmupCosineLR") {
    translate_length(params);
    translate_warmup(params, "warmup_min_ratio", params.number("warmup_min_ratio").value_or(0));
    scheduler.set("type", "schedule", fmt::format("cosine:{}", params.number("cos_min_ratio").value_or(1e-4)));
    return;
  }
  SHOAL_CHECK(type == "WarmupLR" || type == "WarmupDecayLR", OptionError,
              "{} is {}, which cannot be honoured: the schedulers are WarmupLR, WarmupDecayLR and WarmupCosineLR",
              scheduler.name("type"), type);
  if (type == "WarmupDecayLR") translate_length(params);
  const auto highest = translate_highest(params, type == "WarmupDecayLR");
  translate_warmup(params, "warmup_min_lr", least_ratio(params, highest));
  scheduler.set("type", "schedule", type == "WarmupLR" ? "constant" : "linear");
}

}  // namespace

void translate_scheduler(Section& root) {
  auto scheduler = root.section("scheduler");
  if (!scheduler) return;
  const auto type = scheduler->text("type");
  SHOAL_CHECK(type, OptionError, "{} is missing", scheduler->name("type"));
  const nlohmann::json none = nlohmann::json::object();
  Section params =
      scheduler->section("params").value_or(Section(scheduler->where(), none, root.out(), "scheduler.params."));
  translate_by_type(*scheduler, params, *type);
  params.pass_over({"last_batch_iteration"});
  params.finish();
  scheduler->finish();
}

}  // namespace shoal::configs
