#include "checkpoint/reshard_targets.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "core/check.h"
#include "core/crc32c.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {
namespace {

// The engine's: shards begin on vector boundaries. Any other cut would be read as well.
constexpr std::int64_t kAlignment = 16;
constexpr rlim_t kOtherDescriptors = 64;

void allow_open_files(int files) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t needed = static_cast<rlim_t>(files) + kOtherDescriptors;
  if (limit.rlim_cur >= needed) return;
  SHOAL_CHECK(limit.rlim_max >= needed, IoError,
              "{} files must be open at a time and this process may have {}: raise the limit ('ulimit -Hn'), or give "
              "fewer --ranks",
              files, limit.rlim_max);
  limit.rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Range held_by(const SavedTensor& tensor, int rank) {
  const std::int64_t numel = tensor.spec.numel(), begin = tensor.rule.unit_offset, shard = tensor.rule.shard_numel;
  if (tensor.rule.unit.empty()) return {0, rank == 0 ? numel : 0};
  const Range held = intersect({begin, numel}, {rank * shard, shard});
  return {held.begin - begin, held.count};
}

RegionTable table_of(const std::vector<SavedTensor>& tensors, int rank) {
  RegionTable table;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Range held = held_by(tensors[i], rank);
    if (held.count > 0)
      table.push_back({i, static_cast<std::uint64_t>(held.begin), static_cast<std::uint64_t>(held.count), 0});
  }
  return table;
}

}  // namespace

std::vector<SavedTensor> cut_for_ranks(std::vector<SavedTensor> tensors, int ranks) {
  std::map<std::string, std::int64_t> unit_numels;
  for (const auto& [spec, rule] : tensors)
    unit_numels[rule.unit] = std::max(unit_numels[rule.unit], rule.unit_offset + spec.numel());
  for (SavedTensor& tensor : tensors)
    if (!tensor.rule.unit.empty())
      tensor.rule.shard_numel = ShardLayout({unit_numels[tensor.rule.unit]}, ranks, kAlignment).shard_numel();
  return tensors;
}

ReshardTargets::ReshardTargets(const std::filesystem::path& directory, const std::string& id, std::int64_t step,
                               const std::vector<SavedTensor>& tensors, int ranks)
    : by_tensor_(tensors.size()) {
  allow_open_files(ranks);
  std::vector<const TensorSpec*> specs;
  for (const SavedTensor& tensor : tensors) specs.push_back(&tensor.spec);
  for (int rank = 0; rank < ranks; ++rank) {
    const ShardOutput& file =
        files_.emplace_back(directory, ShardHeader{id, step, rank, ranks}, specs, table_of(tensors, rank));
    for (std::size_t region = 0; region < file.regions().size(); ++region) {
      const RegionRow& row = file.regions()[region];
      const std::int64_t element = size_of(specs[row.tensor]->dtype);
      const auto begin = static_cast<std::int64_t>(row.begin), count = static_cast<std::int64_t>(row.count);
      by_tensor_[row.tensor].push_back({files_.size() - 1, region, begin * element, (begin + count) * element, {}});
    }
  }
}

void ReshardTargets::write(std::size_t tensor, std::int64_t offset, const std::byte* data, std::size_t bytes) {
  const std::int64_t end = offset + static_cast<std::int64_t>(bytes);
  std::vector<Target>& targets = by_tensor_.at(tensor);
  auto target = std::partition_point(targets.begin(), targets.end(), [&](const Target& t) { return t.end <= offset; });
  for (; target != targets.end() && target->begin < end; ++target) {
    const std::int64_t from = std::max(offset, target->begin), to = std::min(end, target->end);
    write_piece(*target, from - target->begin, data + (from - offset), static_cast<std::size_t>(to - from));
  }
}

void ReshardTargets::write_piece(Target& target, std::int64_t offset, const std::byte* data, std::size_t bytes) {
  files_[target.rank].write(target.region, offset, data, bytes);
  const std::int64_t end = offset + static_cast<std::int64_t>(bytes);
  if (!target.pieces.empty() && target.pieces.back().end == offset) {
    Piece& last = target.pieces.back();
    last.crc = crc32c(data, bytes, last.crc);
    last.end = end;
  } else {
    target.pieces.push_back({offset, end, crc32c(data, bytes)});
  }
}

std::uint32_t ReshardTargets::crc_of(Target& target) {
  std::sort(target.pieces.begin(), target.pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::uint32_t crc = 0;
  std::int64_t end = 0;
  for (const Piece& piece : target.pieces) {
    SHOAL_ASSERT(piece.begin == end);
    crc = crc32c_combine(crc, piece.crc, static_cast<std::uint64_t>(piece.end - piece.begin));
    end = piece.end;
  }
  SHOAL_ASSERT(end == target.end - target.begin);
  return crc;
}

std::vector<ShardFile> ReshardTargets::finish() {
  for (std::vector<Target>& targets : by_tensor_)
    for (Target& target : targets) files_[target.rank].set_crc(target.region, crc_of(target));
  std::vector<ShardFile> written;
  for (ShardOutput& file : files_) {
    file.write_table();
    written.push_back(file.finish());
  }
  return written;
}

}  // namespace shoal::checkpoint
