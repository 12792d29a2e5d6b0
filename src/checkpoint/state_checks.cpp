#include "checkpoint/state_checks.h"

#include <vector>

#include "core/check.h"
#include "core/hash.h"

namespace shoal::checkpoint {
namespace {

// Of all that must be the same on every rank.
std::uint64_t fingerprint(std::int64_t step, const StateDict& state, const std::string& training_state) {
  std::uint64_t h = hash_combine(static_cast<std::uint64_t>(step), hash_string(training_state));
  const auto mix_number = [&h](std::int64_t value) { h = hash_combine(h, static_cast<std::uint64_t>(value)); };
  const auto mix_text = [&h](const std::string& text) { h = hash_combine(h, hash_string(text)); };
  for (const ShardedTensor& tensor : state.tensors) {
    mix_text(tensor.spec.name);
    mix_number(static_cast<std::int64_t>(tensor.spec.dtype));
    for (const std::int64_t extent : tensor.spec.shape) mix_number(extent);
    mix_text(tensor.rule.unit);
    mix_number(tensor.rule.unit_offset);
    mix_number(tensor.rule.shard_numel);
  }
  for (const auto& [alias, name] : state.aliases) {
    mix_text(alias);
    mix_text(name);
  }
  return h;
}

// Collective over `world`.
void check_same_on_all(comm::ProcessGroup& world, std::uint64_t mine) {
  const std::vector<std::string> all = comm::all_gather_bytes(world, std::to_string(mine));
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    SHOAL_CHECK(all[rank] == all[0], InternalError,
                "rank {} saves other tensors, another step or another training state than rank 0", rank);
}

// Collective over `world`.
void check_all_is_saved(comm::ProcessGroup& world, const StateDict& state) {
  std::vector<std::int64_t> counts;
  for (const ShardedTensor& tensor : state.tensors) counts.push_back(tensor.saves ? tensor.region.count : 0);
  if (counts.empty()) return;
  world.all_reduce(counts.data(), static_cast<std::int64_t>(counts.size()), DType::int64, comm::ReduceOp::sum)->wait();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const TensorSpec& spec = state.tensors[i].spec;
    SHOAL_CHECK(counts[i] == spec.numel(), InternalError, "the ranks save {} elements of tensor '{}', which has {}",
                counts[i], spec.name, spec.numel());
  }
}

}  // namespace

void check_state(comm::ProcessGroup& world, std::int64_t step, const StateDict& state,
                 const std::string& training_state) {
  check_same_on_all(world, fingerprint(step, state, training_state));
  check_all_is_saved(world, state);
}

}  // namespace shoal::checkpoint
