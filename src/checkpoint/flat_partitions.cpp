#include "checkpoint/flat_partitions.h"

#include <algorithm>

namespace shoal::checkpoint {

using formats::StoredTensor;

std::int64_t FlatPartitions::padding(std::size_t group, std::size_t parameter) const {
  return group < paddings.size() && parameter < paddings[group].size() ? paddings[group][parameter] : 0;
}

void FlatPartitions::add(std::vector<TensorPiece>& pieces, const std::string& kind, std::size_t rank, std::size_t group,
                         Range wanted, std::int64_t at, std::int64_t shift) const {
  const std::vector<Part>& parts = kinds.at(kind);
  if (rank >= parts.size() || group >= parts[rank].groups.size()) return;
  const StoredTensor& stored = parts[rank].groups[group];
  const std::int64_t held = stored.spec.shape.empty() ? 0 : stored.spec.shape[0];
  const Range both = intersect(wanted, {at, held});
  if (both.count > 0) pieces.push_back({{both.begin - shift, both.count}, parts[rank].file, stored, both.begin - at});
}

std::vector<TensorPiece> FlatPartitions::pieces(const std::string& kind, bool each_cut, std::size_t group,
                                                std::int64_t begin, std::int64_t numel) const {
  std::vector<TensorPiece> found;
  const std::vector<Part>& masters = kinds.at(kMasters);  // the others may lack the padding at their end
  const auto ranks = static_cast<std::int64_t>(masters.size());
  const std::int64_t part = numel / ranks + (numel % ranks != 0 ? 1 : 0);
  std::int64_t at = 0;
  for (std::size_t rank = 0; rank < masters.size(); ++rank) {
    const std::vector<StoredTensor>& groups = masters[rank].groups;
    if (!each_cut) {
      if (group >= groups.size()) return {};
      add(found, kind, rank, group, {begin, numel}, at, begin);
      at += groups[group].spec.shape[0];
      continue;
    }
    const std::int64_t first = std::min(numel, static_cast<std::int64_t>(rank) * part);
    at = 0;
    for (std::size_t g = 0; g < groups.size(); at += groups[g].spec.shape[0], ++g)
      add(found, kind, rank, g, {begin, std::min(part, numel - first)}, at, begin - first);
  }
  std::int64_t covered = 0;
  for (const TensorPiece& piece : found) covered += piece.elements.count;
  return covered == numel ? found : std::vector<TensorPiece>{};
}

}  // namespace shoal::checkpoint
