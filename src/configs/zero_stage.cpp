#include "configs/zero_stage.h"

#include <array>

#include "core/check.h"

namespace shoal::configs {
namespace {

bool is_offloaded(Section& section, const std::string& key, const std::string& device) {
  SHOAL_CHECK(device != "nvme", OptionError, "{} is nvme, which cannot be honoured: it must be cpu or none",
              section.name(key));
  SHOAL_CHECK(device == "cpu" || device == "none", OptionError, "{} is '{}', but must be cpu or none",
              section.name(key), device);
  return device == "cpu";
}

}  // namespace

void translate_zero(Section& section, const ZeroSettings& zero) {
  constexpr std::array kStrategies{"no_shard", "zero1", "zero2", "zero3"};
  SHOAL_CHECK(zero.stage >= 0 && zero.stage < std::ssize(kStrategies), OptionError,
              "{} is {}, but must be 0, 1, 2 or 3", section.name(zero.stage_key), zero.stage);
  const char* strategy = kStrategies[static_cast<std::size_t>(zero.stage)];
  section.set(zero.stage_key, "strategy", zero.replicated && zero.stage == 3 ? "hybrid_shard" : strategy);
  const bool optimizer = is_offloaded(section, zero.optimizer_key, zero.optimizer_device);
  const bool params = is_offloaded(section, zero.param_key, zero.param_device);
  SHOAL_CHECK(!params || zero.stage == 3, OptionError,
              "{} contradicts {}: {}: parameters are offloaded in stage 3 alone", section.name(zero.param_key),
              section.path(zero.stage_key), zero.stage);
  SHOAL_CHECK(!optimizer || zero.stage > 0, OptionError,
              "{} contradicts {}: 0: the optimizer's state is offloaded from stage 1 on",
              section.name(zero.optimizer_key), section.path(zero.stage_key));
  if (params) {
    section.set(zero.param_key, "offload", "params");
  } else if (optimizer) {
    section.set(zero.optimizer_key, "offload", "optimizer");
  }
}

}  // namespace shoal::configs
