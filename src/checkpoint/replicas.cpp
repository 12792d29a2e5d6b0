#include "checkpoint/replicas.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "checkpoint/group_activity.h"
#include "comm/late_ranks.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/hash.h"

namespace shoal::checkpoint {
namespace {

using Spans = std::vector<std::span<std::byte>>;

std::uint64_t hash_of_held(const std::vector<ShardedTensor*>& tensors) {
  std::uint64_t hash = tensors.size();
  for (const ShardedTensor* tensor : tensors) {
    const std::int64_t count = tensor == nullptr ? 0 : tensor->region.count;
    const std::int64_t begin = count == 0 ? 0 : tensor->region.begin;
    hash = hash_combine(hash_combine(hash, static_cast<std::uint64_t>(begin)), static_cast<std::uint64_t>(count));
  }
  return hash;
}

// Goes through spans as if they were one.
class Cursor {
 public:
  explicit Cursor(const Spans& spans) : spans_(spans) {
    for (const auto& span : spans) left_ += span.size();
  }
  std::size_t left() const { return left_; }

  // Calls use(memory, offset, bytes) for the next `bytes` bytes, or as many as there are.
  template <typename Use>
  void advance(std::size_t bytes, const Use& use) {
    for (std::size_t done = 0; done < bytes && left_ > 0;) {
      const auto& span = spans_[index_];
      const std::size_t n = std::min(bytes - done, span.size() - offset_);
      use(span.data() + offset_, done, n);
      done += n;
      offset_ += n;
      left_ -= n;
      if (offset_ < span.size()) continue;
      ++index_;
      offset_ = 0;
    }
  }

 private:
  const Spans& spans_;
  std::size_t index_ = 0, offset_ = 0, left_ = 0;
};

// What a group of its own numbers by itself, in the job's numbers.
template <typename Body>
void naming_ranks_of_the_job(const std::vector<int>& ranks, const Body& body) {
  try {
    body();
  } catch (const comm::LateRanksError& error) {
    std::vector<int> late;
    for (const int rank : error.ranks()) late.push_back(ranks.at(static_cast<std::size_t>(rank)));
    throw comm::LateRanksError(fmt::format("{} (numbered among the {} ranks that hold the same; in the job: {})",
                                           error.what(), ranks.size(), fmt::join(late, ", ")),
                               late);
  }
}

}  // namespace

Replicas::Replicas(comm::ProcessGroup& world, const std::vector<ShardedTensor*>& tensors) : world_(world) {
  std::vector<std::uint64_t> held(static_cast<std::size_t>(world.size()));
  const auto me = static_cast<std::size_t>(world.rank());
  held[me] = hash_of_held(tensors);
  world.all_gather(&held[me], held.data(), 1, DType::int64)->wait();
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    if (held[rank] != held[me]) continue;
    if (rank == me) index_ = ranks_.size();
    ranks_.push_back(static_cast<int>(rank));
  }
  std::sort(held.begin(), held.end());
  if (std::adjacent_find(held.begin(), held.end()) == held.end()) return;  // the same on all ranks
  group_ = world.split(ranks_.front());
  if (ranks_.size() == 1) group_.reset();
}

std::vector<std::size_t> Replicas::divide(const std::vector<std::int64_t>& bytes) const {
  const std::int64_t total = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  const auto runs = static_cast<std::int64_t>(size());
  std::vector<std::size_t> cuts(1, 0);
  std::int64_t before = 0;
  for (std::size_t i = 0; i < bytes.size(); before += bytes[i++])
    // A thing belongs where its middle lies.
    while (static_cast<std::int64_t>(cuts.size()) < runs &&
           before + bytes[i] / 2 >= total / runs * static_cast<std::int64_t>(cuts.size()))
      cuts.push_back(i);
  cuts.resize(size() + 1, bytes.size());
  return cuts;
}

void Replicas::pass_on(const std::vector<Spans>& filled) {
  if (!group_) return;
  constexpr std::size_t kMost = 32 << 20;
  const GroupActivity activity(*group_, world_.activity() + ": replicas pass on what they have read");
  std::vector<Cursor> cursors(filled.begin(), filled.end());
  const std::size_t piece = std::min(static_cast<std::size_t>(kChunkBytes), std::max<std::size_t>(kMost / size(), 1));
  std::vector<std::byte> buffer(piece * size());
  for (;;) {
    std::size_t bytes = 0;
    for (const Cursor& cursor : cursors) bytes = std::max(bytes, std::min(piece, cursor.left()));
    if (bytes == 0) return;
    std::byte* const mine = buffer.data() + index_ * bytes;
    cursors[index_].advance(bytes, [&](const std::byte* memory, std::size_t offset, std::size_t n) {
      std::memcpy(mine + offset, memory, n);
    });
    naming_ranks_of_the_job(ranks_, [&] {
      group_->all_gather(mine, buffer.data(), static_cast<std::int64_t>(bytes), DType::uint8)->wait();
    });
    for (std::size_t i = 0; i < size(); ++i)
      if (i != index_)
        cursors[i].advance(bytes, [&](std::byte* memory, std::size_t offset, std::size_t n) {
          std::memcpy(memory, buffer.data() + i * bytes + offset, n);
        });
    activity::progressed();
  }
}

bool Replicas::agree(const PlacedElements& placed) {
  if (!group_) return true;
  std::vector<std::uint64_t> hashes(size());
  hashes[index_] = placed.hash();
  naming_ranks_of_the_job(ranks_, [&] { group_->all_gather(&hashes[index_], hashes.data(), 1, DType::int64)->wait(); });
  return std::all_of(hashes.begin(), hashes.end(), [&](std::uint64_t hash) { return hash == hashes.front(); });
}

}  // namespace shoal::checkpoint
