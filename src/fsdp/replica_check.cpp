#include "fsdp/replica_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/check.h"
#include "core/hash.h"
#include "core/host_name.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

// Elements hashed at a time: what they become takes as many 8-byte words beside the weights'.
constexpr std::int64_t kBlock = std::int64_t{1} << 21;

// The bits of each element as an integer of its width.
at::Tensor bits_of(const at::Tensor& values) {
  switch (values.element_size()) {
    case 8: return values.view(at::kLong).clone();  // what follows writes to it
    case 4: return values.view(at::kInt);
    case 2: return values.view(at::kShort);
    default: return values.view(at::kByte);
  }
}

// Odd numbers that look random: with them a sum of products modulo 2^64 tells elements and places apart, whatever the
// order in which it is added up.
at::Tensor weights(std::int64_t count, at::Device device) {
  at::Tensor w = at::arange(count, at::TensorOptions(device).dtype(at::kLong));
  for (const std::int64_t factor : {0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB})
    w = w.add_(1).mul_(factor).bitwise_xor_(w.bitwise_right_shift(29));
  return w.bitwise_or_(1);
}

// One a parameter group of a unit, with what else must be alike.
struct Fingerprint {
  std::string unit;
  std::uint64_t hash;
};

std::vector<Fingerprint> fingerprints(const std::vector<std::unique_ptr<Unit>>& units) {
  std::vector<Fingerprint> prints;
  for (const auto& unit : units)
    for (const auto& flat : unit->flats()) {
      const at::Tensor& master = flat->master();
      const std::uint64_t kind = hash_combine(static_cast<std::uint64_t>(master.scalar_type()),
                                              static_cast<std::uint64_t>(flat->dtypes().params));
      const std::uint64_t shape = hash_combine(kind, static_cast<std::uint64_t>(master.numel()));
      prints.push_back({unit->name(), hash_combine(shape, hash_of(master))});
    }
  return prints;
}

// The hashes of all ranks; rows of one rank. Collective over `world`.
std::vector<std::vector<std::uint64_t>> all_hashes(comm::ProcessGroup& world, const std::vector<Fingerprint>& mine) {
  std::vector<std::uint64_t> hashes;
  for (const Fingerprint& print : mine) hashes.push_back(print.hash);
  const std::string bytes(reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(std::uint64_t));
  std::vector<std::vector<std::uint64_t>> all;
  for (const std::string& theirs : comm::all_gather_bytes(world, bytes)) {
    all.emplace_back(theirs.size() / sizeof(std::uint64_t));
    std::copy(theirs.begin(), theirs.end(), reinterpret_cast<char*>(all.back().data()));
  }
  return all;
}

// Among the ranks that hold a shard, one with a hash that fewer have than any other, and one with the commonest; -1
// where all agree.
struct Odd {
  int rank = -1, other = -1;
};
Odd find_odd(const std::vector<std::vector<std::uint64_t>>& hashes, std::size_t flat, int shard, int shards) {
  std::map<std::uint64_t, int> counts;
  const auto hash = [&](int rank) { return hashes[static_cast<std::size_t>(rank)].at(flat); };
  const int ranks = static_cast<int>(hashes.size());
  for (int rank = shard; rank < ranks; rank += shards) ++counts[hash(rank)];
  if (counts.size() == 1) return {};
  Odd odd{shard, shard};
  for (int rank = shard; rank < ranks; rank += shards) {
    if (counts[hash(rank)] > counts[hash(odd.other)]) odd.other = rank;
    if (counts[hash(rank)] < counts[hash(odd.rank)]) odd.rank = rank;
  }
  if (hash(odd.rank) != hash(odd.other)) return odd;
  for (odd.rank = shard; hash(odd.rank) == hash(odd.other);) odd.rank += shards;  // as many of each kind
  return odd;
}

}  // namespace

std::uint64_t hash_of(const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  const at::Tensor bits = bits_of(values.detach().view({-1}));
  const std::int64_t count = bits.numel();
  const at::Tensor weight = weights(std::min(count, kBlock), bits.device());
  const std::int64_t blocks = (count + kBlock - 1) / kBlock;
  const at::Tensor sums = at::empty({blocks}, weight.options());
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t n = std::min(kBlock, count - b * kBlock);
    // Not in place: 64-bit elements are their own bits.
    const at::Tensor products = bits.narrow(0, b * kBlock, n).to(at::kLong).mul(weight.narrow(0, 0, n));
    sums.select(0, b).copy_(products.sum());
  }
  const at::Tensor on_host = sums.cpu();
  std::uint64_t hash = static_cast<std::uint64_t>(count);
  for (std::int64_t b = 0; b < blocks; ++b)
    hash = hash_combine(hash, static_cast<std::uint64_t>(on_host.const_data_ptr<std::int64_t>()[b]));
  return hash;
}

void ReplicaCheck::before_run() {
  const bool due = runs_ == 0 ? at_start_ : every_ > 0 && runs_ % every_ == 0;
  ++runs_;
  if (due && mesh_->replicate_size() > 1) check();
}

void ReplicaCheck::check() const {
  comm::ProcessGroup& world = mesh_->world();
  const std::vector<Fingerprint> mine = fingerprints(*units_);
  const auto hashes = all_hashes(world, mine);
  const int shards = mesh_->shard_size();
  for (std::size_t flat = 0; flat < mine.size(); ++flat)
    for (int shard = 0; shard < shards; ++shard) {
      const Odd odd = find_odd(hashes, flat, shard, shards);
      if (odd.rank < 0) continue;
      const auto hosts = comm::all_gather_bytes(world, host_name());
      throw CommunicationError(
          "replicas differ: before run {} of training, rank {} on {} has other parameters in unit '{}' than rank {} on "
          "{}, though both hold shard {} of {}; start again from a checkpoint of before (--resume PATH), without a "
          "host "
          "that does it again",
          runs_, odd.rank, hosts[static_cast<std::size_t>(odd.rank)], mine[flat].unit, odd.other,
          hosts[static_cast<std::size_t>(odd.other)], shard, shards);
    }
}

}  // namespace shoal::fsdp
