// The names of the strategies, and what each means for the mesh and for resharding.
#include <algorithm>
#include <array>

#include "core/check.h"
#include "fsdp/fully_shard.h"

namespace shoal::fsdp {
namespace {

struct Name {
  const char* text;
  Strategy strategy;
};
// The first name of a strategy is the one that is printed. ZeRO-1 keeps what NO_SHARD keeps whole but for the
// optimizer, which SHARD_GRAD_OP cuts as ZeRO-2 does.
constexpr std::array<Name, 8> kNames{{{"full_shard", Strategy::full_shard},
                                      {"shard_grad_op", Strategy::shard_grad_op},
                                      {"no_shard", Strategy::no_shard},
                                      {"hybrid_shard", Strategy::hybrid_shard},
                                      {"hybrid_shard_zero2", Strategy::hybrid_shard_zero2},
                                      {"zero1", Strategy::shard_grad_op},
                                      {"zero2", Strategy::shard_grad_op},
                                      {"zero3", Strategy::full_shard}}};

}  // namespace

Strategy parse_strategy(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Name& name : kNames)
    if (lower == name.text) return name.strategy;
  throw OptionError(
      "--strategy {}: expected full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2, zero1, zero2 or "
      "zero3",
      text);
}

const char* name_of(Strategy strategy) {
  return std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.strategy == strategy; })->text;
}

int shard_group_size(Strategy strategy, int world_size, int ranks_per_node, int requested) {
  switch (strategy) {
    case Strategy::no_shard: return 1;
    case Strategy::hybrid_shard:
    case Strategy::hybrid_shard_zero2: return requested > 0 ? requested : ranks_per_node;
    default: return world_size;
  }
}

bool reshards_after_forward(Strategy strategy) {
  return strategy == Strategy::full_shard || strategy == Strategy::hybrid_shard;
}

}  // namespace shoal::fsdp
