#include "train/option_changes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/hash.h"

namespace shoal::train {
namespace {

// Heads and rotary embeddings show in no tensor's shape.
constexpr std::array<std::string_view, 13> kRefused{
    "model",      "layers",        "heads",       "kv-heads",   "hidden-size",  "intermediate-size",
    "vocab-size", "max-positions", "untied-head", "rope-theta", "rope-scaling", "optimizer",
    "seed"};

constexpr std::array<std::string_view, 30> kWarned{"lr",
                                                   "momentum",
                                                   "betas",
                                                   "eps",
                                                   "weight-decay",
                                                   "schedule",
                                                   "warmup",
                                                   "warmup-type",
                                                   "warmup-min-ratio",
                                                   "loss-scale",
                                                   "initial-scale-power",
                                                   "loss-scale-window",
                                                   "hysteresis",
                                                   "consecutive-hysteresis",
                                                   "min-loss-scale",
                                                   "no-decay",
                                                   "param-group",
                                                   "clip-grad-norm",
                                                   "accumulate",
                                                   "global-batch-size",
                                                   "param-dtype",
                                                   "reduce-dtype",
                                                   "buffer-dtype",
                                                   "dropout",
                                                   "sequence-length",
                                                   "token-type",
                                                   "tokenizer",
                                                   "mask-token",
                                                   "special-tokens",
                                                   "mask-probability"};

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ChangeRule change_rule(std::string_view option) {
  if (is_among(kRefused, option)) return ChangeRule::refused;
  return is_among(kWarned, option) ? ChangeRule::warned : ChangeRule::free;
}

std::string options_hash(const NamedValues& options) {
  std::uint64_t hash = 0;
  for (const auto& [name, value] : options)
    if (change_rule(name) != ChangeRule::free) hash = hash_combine(hash, hash_string(name + "=" + value));
  return fmt::format("{:016x}", hash);
}

std::vector<OptionChange> changes_between(const NamedValues& before, const NamedValues& now) {
  const std::map<std::string, std::string> old(before.begin(), before.end());
  std::vector<OptionChange> changes;
  for (const auto& [name, value] : now)
    if (const auto found = old.find(name); found != old.end() && found->second != value)
      changes.push_back({name, found->second, value, change_rule(name)});
  return changes;
}

}  // namespace shoal::train
