#include "checkpoint/restore.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include "checkpoint/agreement.h"
#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/whole_tensors.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/logging.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// No damage: every older checkpoint would say the same, so there is nothing to fall back to.
class ModelMismatch final : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

[[noreturn]] void fail_differences(const std::vector<std::string>& differences, const std::string& where) {
  constexpr std::size_t kShown = 10;
  const auto shown_end = differences.begin() + static_cast<std::ptrdiff_t>(std::min(differences.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(differences.begin(), shown_end, "; "));
  if (differences.size() > kShown) text += fmt::format("; and {} more", differences.size() - kShown);
  throw ModelMismatch("{} is the checkpoint of another model or optimizer: {}", where, text);
}

std::string describe(const TensorSpec& spec) {
  return fmt::format("{} [{}]", name_of(spec.dtype), fmt::join(spec.shape, ", "));
}

// The tensor of `state` for each of the manifest. CheckpointError that lists what differs.
std::vector<ShardedTensor*> match_tensors(const Manifest& manifest, StateDict& state, const std::string& where) {
  std::map<std::string, ShardedTensor*> wanted;
  for (ShardedTensor& tensor : state.tensors) wanted[tensor.spec.name] = &tensor;
  std::vector<ShardedTensor*> matched;
  std::vector<std::string> differences;
  for (const auto& [spec, rule] : manifest.tensors) {
    const auto found = wanted.find(spec.name);
    matched.push_back(found == wanted.end() ? nullptr : found->second);
    if (found == wanted.end()) {
      differences.push_back(fmt::format("'{}' is in the checkpoint but not in the model", spec.name));
      continue;
    }
    const TensorSpec& own = found->second->spec;
    if (!(own == spec))
      differences.push_back(
          fmt::format("'{}' is {} in the checkpoint and {} in the model", spec.name, describe(spec), describe(own)));
    wanted.erase(found);
  }
  for (const auto& [name, tensor] : wanted)
    differences.push_back(fmt::format("'{}' is in the model but not in the checkpoint", name));
  if (!differences.empty()) fail_differences(differences, where);
  return matched;
}

// Collective over `world`. Each rank reads some of the tables and all get all of them.
std::vector<RegionTable> gather_tables(comm::ProcessGroup& world, const fs::path& checkpoint,
                                       const Manifest& manifest) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto mine = static_cast<std::size_t>(world.rank());
  std::vector<std::string> read = run_everywhere(world, "every rank reads tables of regions", [&] {
    std::string bytes;
    for (std::size_t i = mine; i < manifest.files.size(); i += ranks)
      bytes += table_bytes(ShardReader(checkpoint, manifest, i).regions());
    return bytes;
  });
  std::vector<RegionTable> tables;
  std::vector<std::size_t> taken(ranks, 0);
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const std::size_t bytes = static_cast<std::size_t>(manifest.files[i].regions) * sizeof(RegionRow);
    tables.push_back(table_from_bytes(read[i % ranks].substr(taken[i % ranks], bytes)));
    taken[i % ranks] += bytes;
  }
  return tables;
}

Range range_of(const RegionRow& row) {
  return {static_cast<std::int64_t>(row.begin), static_cast<std::int64_t>(row.count)};
}

bool is_wanted(const RegionRow& row, const ShardedTensor& tensor) {
  return intersect(range_of(row), {tensor.region.begin, tensor.region.count}).count > 0;
}

// Copies what the rank holds out of `bytes` bytes at byte `offset` of the flattened tensor.
void copy_overlap(const ShardedTensor& tensor, std::int64_t offset, const std::byte* data, std::size_t bytes) {
  const std::int64_t element = size_of(tensor.spec.dtype);
  const Range held{tensor.region.begin * element, tensor.region.count * element};
  const Range both = intersect(held, {offset, static_cast<std::int64_t>(bytes)});
  if (both.count == 0) return;
  std::memcpy(tensor.region.data + (both.begin - held.begin), data + (both.begin - offset),
              static_cast<std::size_t>(both.count));
}

// A region of which a part is wanted is read as a whole: its checksum covers the whole.
void read_held(const fs::path& checkpoint, const Manifest& manifest, const std::vector<RegionTable>& tables,
               const std::vector<ShardedTensor*>& tensors) {
  for (std::size_t file = 0; file < tables.size(); ++file) {
    const RegionTable& table = tables[file];
    const auto wanted = [&](const RegionRow& row) { return is_wanted(row, *tensors[row.tensor]); };
    if (std::none_of(table.begin(), table.end(), wanted)) continue;
    ShardReader reader(checkpoint, manifest, file);
    for (std::size_t region = 0; region < table.size(); ++region) {
      if (!wanted(table[region])) continue;
      const ShardedTensor& tensor = *tensors[table[region].tensor];
      reader.read(region, [&](std::int64_t offset, const std::byte* data, std::size_t bytes) {
        copy_overlap(tensor, offset, data, bytes);
      });
    }
  }
}

// Collective over `world`. Every element that the ranks hold is filled, or all ranks throw the same CheckpointError.
void fill(comm::ProcessGroup& world, const fs::path& checkpoint, const Manifest& manifest,
          const std::vector<ShardedTensor*>& tensors) {
  const std::vector<RegionTable> tables = gather_tables(world, checkpoint, manifest);
  check_coverage(tables, manifest, checkpoint.string());
  run_everywhere(world, "every rank reads its part", [&] {
    read_held(checkpoint, manifest, tables, tensors);
    return std::string();
  });
  check_whole_tensors(world, manifest, tables, tensors, checkpoint.string());
}

// Collective over `world`. Rank 0 vouches for the manifest; the others get its text.
Manifest share_manifest(comm::ProcessGroup& world, const fs::path& checkpoint) {
  const std::string text = run_on_root(world, "rank 0 reads the manifest", [&] {
    open_checkpoint(checkpoint);
    return read_text_file(checkpoint / kManifestName);
  });
  return parse_manifest(text, (checkpoint / kManifestName).string());
}

// Collective over `world`.
Restored restore_one(comm::ProcessGroup& world, const fs::path& checkpoint, StateDict& state) {
  const Manifest manifest = share_manifest(world, checkpoint);
  fill(world, checkpoint, manifest, match_tensors(manifest, state, checkpoint.string()));
  return {checkpoint, manifest.step, manifest.ranks, manifest.training_state};
}

// Collective over `world`. Newest first.
std::vector<fs::path> share_candidates(comm::ProcessGroup& world, const fs::path& directory) {
  const std::string shared = run_on_root(world, "rank 0 looks for checkpoints", [&] {
    std::string names;
    for (const CatalogEntry& entry : list_checkpoints(directory)) names += entry.path.filename().string() + '\n';
    return names;
  });
  std::vector<fs::path> paths;
  std::istringstream lines(shared);
  for (std::string name; std::getline(lines, name);) paths.push_back(directory / name);
  return paths;
}

}  // namespace

Restored restore_from(comm::ProcessGroup& world, const fs::path& path, StateDict& state) {
  return restore_one(world, run_on_root(world, [&] { return resolve_checkpoint(path).string(); }), state);
}

std::optional<Restored> restore_newest_sound(comm::ProcessGroup& world, const fs::path& directory, StateDict& state) {
  const std::vector<fs::path> candidates = share_candidates(world, directory);
  if (candidates.empty()) return std::nullopt;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    try {
      return restore_one(world, candidates[i], state);
    } catch (const ModelMismatch&) {
      throw;
    } catch (const CheckpointError& error) {  // the same on every rank
      if (world.rank() != 0) continue;
      const bool last = i + 1 == candidates.size();
      log::warning("DAMAGED CHECKPOINT: {}; {}", error.what(),
                   last ? std::string("there is no older one") : "falling back to " + candidates[i + 1].string());
    }
  }
  throw CheckpointError(
      "none of the {} checkpoints in {} is sound; see the warnings above, or start anew with "
      "--resume never and another --checkpoint-dir",
      candidates.size(), directory.string());
}

}  // namespace shoal::checkpoint
