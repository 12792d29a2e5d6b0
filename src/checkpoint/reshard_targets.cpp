#include "checkpoint/reshard_targets.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "core/all_zero.h"
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
  StateDict state;  // no more of it than layouts want to know
  for (const SavedTensor& tensor : tensors) state.tensors.push_back({tensor.spec, tensor.rule, {}});
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Range held = held_by(tensors[i], rank);
      state.tensors[i].region.begin = held.begin;
      state.tensors[i].region.count = held.count;
    }
    const ShardHeader header{id, step, rank, ranks, ranks};
    RegionTable table = table_of(state);
    LaidOutShard shard = lay_out_shard(directory / header.file_name(), header, state, table);
    for (std::size_t region = 0; region < table.size(); ++region) {
      const RegionRow& row = table[region];
      const std::int64_t begin = static_cast<std::int64_t>(row.begin) * size_of(tensors[row.tensor].spec.dtype);
      by_tensor_[row.tensor].push_back({files_.size(), region, begin, begin + bytes_of(row, state), 0});
    }
    files_.push_back({header.file_name(), std::move(shard), std::move(table)});
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
  File& file = files_[target.rank];
  if (!all_zero(data, bytes))  // what is, the new file has as a hole
    file.shard.file.write_at(file.shard.places.rows[target.region] + offset, data, bytes);
  const std::int64_t after = target.end - target.begin - offset - static_cast<std::int64_t>(bytes);
  file.table[target.region].crc ^= crc32c_share(crc32c(data, bytes), static_cast<std::uint64_t>(after));
  target.written += static_cast<std::int64_t>(bytes);
}

std::vector<ShardFile> ReshardTargets::finish() {
  for (const std::vector<Target>& targets : by_tensor_)
    for (const Target& target : targets) SHOAL_ASSERT(target.written == target.end - target.begin);
  std::vector<ShardFile> written;
  for (File& file : files_) {
    OutputFile& output = file.shard.file;
    if (!file.table.empty())
      output.write_at(file.shard.places.table, file.table.data(), file.table.size() * sizeof(RegionRow));
    output.sync();
    written.push_back({file.name, output.size(), static_cast<std::int64_t>(file.table.size()), table_crc(file.table)});
    output.close();
  }
  return written;
}

}  // namespace shoal::checkpoint
