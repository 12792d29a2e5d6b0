#include "checkpoint/restore.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>

#include "checkpoint/agreement.h"
#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/in_workers.h"
#include "checkpoint/match_tensors.h"
#include "checkpoint/placed_elements.h"
#include "checkpoint/replicas.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/whole_tensors.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/logging.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// Shard files that were opened for their tables, for those that will read elements of the same.
using OpenShards = std::map<std::size_t, std::unique_ptr<ShardReader>>;

// None where the process may not have many files open.
std::size_t most_open_shards() {
  constexpr rlim_t kMost = 16, kDescriptorsForEach = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(std::min(kMost, limit.rlim_cur / kDescriptorsForEach));
}

// Collective over `world`. Each rank reads some of the tables, those of files that it is likely to want more of, and
// all get all of them.
std::vector<RegionTable> gather_tables(comm::ProcessGroup& world, const fs::path& checkpoint, const Manifest& manifest,
                                       OpenShards& open) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto mine = static_cast<std::size_t>(world.rank());
  const auto reader_of = [&](std::size_t file) { return file * ranks / manifest.files.size(); };
  std::vector<std::string> read = run_everywhere(world, "every rank reads tables of regions", [&] {
    std::string bytes;
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
      if (reader_of(i) != mine) continue;
      auto reader = std::make_unique<ShardReader>(checkpoint, manifest, i);
      bytes += table_bytes(reader->regions());
      if (open.size() < most_open_shards()) open.emplace(i, std::move(reader));
    }
    return bytes;
  });
  std::vector<RegionTable> tables;
  std::vector<std::size_t> taken(ranks, 0);
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const std::size_t bytes = static_cast<std::size_t>(manifest.files[i].regions) * sizeof(RegionRow);
    std::size_t& begin = taken[reader_of(i)];
    tables.push_back(table_from_bytes(read[reader_of(i)].substr(begin, bytes)));
    begin += bytes;
  }
  return tables;
}

// A region of which this rank wants something.
struct Wanted {
  std::size_t file, region, tensor;
  Range bytes;  // that are wanted, of the flattened tensor
  bool whole;
};

// In the order of the files. A region of which a part is wanted is read as a whole: its checksum covers the whole.
std::vector<Wanted> find_wanted(const std::vector<RegionTable>& tables, const std::vector<ShardedTensor*>& tensors) {
  std::vector<Wanted> wanted;
  for (std::size_t file = 0; file < tables.size(); ++file) {
    for (std::size_t region = 0; region < tables[file].size(); ++region) {
      const RegionRow& row = tables[file][region];
      const ShardedTensor* tensor = tensors[row.tensor];
      if (tensor == nullptr) continue;
      const Range all{static_cast<std::int64_t>(row.begin), static_cast<std::int64_t>(row.count)};
      const Range both = intersect(all, {tensor->region.begin, tensor->region.count});
      const std::int64_t element = size_of(tensor->spec.dtype);
      if (both.count > 0)
        wanted.push_back({file, region, row.tensor, {both.begin * element, both.count * element}, both == all});
    }
  }
  return wanted;
}

// Where the bytes go.
std::span<std::byte> place_of(const Wanted& wanted, const std::vector<ShardedTensor*>& tensors) {
  const ShardedTensor& tensor = *tensors[wanted.tensor];
  return {tensor.region.data + (wanted.bytes.begin - tensor.region.begin * size_of(tensor.spec.dtype)),
          static_cast<std::size_t>(wanted.bytes.count)};
}

// The shard files that workers read from. They come to them in order, so each is opened once, by whoever comes first,
// and closed by whoever leaves it last.
class Readers {
 public:
  Readers(const fs::path& checkpoint, const Manifest& manifest, OpenShards& open)
      : checkpoint_(&checkpoint), manifest_(&manifest), open_(&open) {}

  std::shared_ptr<const ShardReader> of(std::size_t file) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const ShardReader>& known = readers_[file];
    if (auto reader = known.lock()) return reader;
    auto found = open_->extract(file);
    std::shared_ptr<const ShardReader> reader =
        found ? std::move(found.mapped()) : std::make_unique<ShardReader>(*checkpoint_, *manifest_, file);
    known = reader;
    return reader;
  }

 private:
  const fs::path* checkpoint_;
  const Manifest* manifest_;
  std::mutex mutex_;  // of the rest
  OpenShards* open_;
  std::map<std::size_t, std::weak_ptr<const ShardReader>> readers_;
};

// What a worker holds.
struct Reading {
  std::optional<std::size_t> file;
  std::shared_ptr<const ShardReader> reader;
  std::vector<std::byte> buffer;

  void open(std::size_t wanted, Readers& readers) {
    if (file == wanted) return;
    reader.reset();  // each is read in one go
    reader = readers.of(wanted);
    file = wanted;
  }
};

// Returns the checksum of what was wanted.
std::uint32_t read_one(const ShardReader& reader, const Wanted& wanted, std::span<std::byte> place,
                       std::vector<std::byte>& buffer) {
  if (wanted.whole) return reader.read_into(wanted.region, place.data());
  std::uint32_t crc = 0;
  const auto take = [&](std::int64_t offset, const std::byte* data, std::size_t bytes) {
    const Range both = intersect(wanted.bytes, {offset, static_cast<std::int64_t>(bytes)});
    if (both.count == 0) return;
    std::byte* const to = place.data() + (both.begin - wanted.bytes.begin);
    std::memcpy(to, data + (both.begin - offset), static_cast<std::size_t>(both.count));
    crc = crc32c(to, static_cast<std::size_t>(both.count), crc);
  };
  reader.read(wanted.region, take, buffer);
  return crc;
}

void read_wanted(std::span<const Wanted> wanted, Readers& readers, int workers, PlacedElements& placed) {
  std::vector<std::uint32_t> crcs(wanted.size());
  std::vector<Reading> of_worker(static_cast<std::size_t>(workers));
  in_workers(workers, wanted.size(), [&](std::size_t i, int worker) {
    Reading& own = of_worker[static_cast<std::size_t>(worker)];
    own.open(wanted[i].file, readers);
    crcs[i] = read_one(*own.reader, wanted[i], place_of(wanted[i], placed.tensors()), own.buffer);
  });
  for (std::size_t i = 0; i < wanted.size(); ++i)
    placed.add(wanted[i].tensor, place_of(wanted[i], placed.tensors()).data(), wanted[i].bytes.count, crcs[i]);
}

// Collective over `world`, whose replicas have read `cuts` of what all of them want.
void share_among(Replicas& replicas, comm::ProcessGroup& world, const std::vector<Wanted>& wanted,
                 const std::vector<std::size_t>& cuts, PlacedElements& placed) {
  std::vector<std::vector<std::span<std::byte>>> filled(replicas.size());
  for (std::size_t replica = 0; replica < replicas.size(); ++replica)
    for (std::size_t i = cuts[replica]; i < cuts[replica + 1]; ++i)
      filled[replica].push_back(place_of(wanted[i], placed.tensors()));
  replicas.pass_on(filled);
  for (std::size_t replica = 0; replica < replicas.size(); ++replica)
    for (std::size_t i = cuts[replica]; i < cuts[replica + 1] && replica != replicas.index(); ++i) {
      const std::span<std::byte> place = filled[replica][i - cuts[replica]];
      placed.add(wanted[i].tensor, place.data(), wanted[i].bytes.count, crc32c(place.data(), place.size()));
    }
  const bool agree = replicas.agree(placed);
  run_everywhere(world, "replicas compare what they have", [&] {
    SHOAL_CHECK(agree, InternalError, "the ranks that hold the same elements have not the same bytes now");
    return std::string();
  });
}

// Collective over `world`. Every element that the ranks hold is filled, or all ranks throw the same CheckpointError.
void fill(comm::ProcessGroup& world, const fs::path& checkpoint, const Manifest& manifest,
          const std::vector<ShardedTensor*>& tensors, int workers) {
  OpenShards open;
  const std::vector<RegionTable> tables = gather_tables(world, checkpoint, manifest, open);
  check_coverage(tables, manifest, checkpoint.string());
  Replicas replicas(world, tensors);
  PlacedElements placed(tensors);
  const std::vector<Wanted> wanted = find_wanted(tables, tensors);
  std::vector<std::int64_t> bytes;
  for (const Wanted& one : wanted) bytes.push_back(one.bytes.count);
  const std::vector<std::size_t> cuts = replicas.divide(bytes);
  run_everywhere(world, "every rank reads its part", [&] {
    const std::size_t first = cuts[replicas.index()], end = cuts[replicas.index() + 1];
    Readers readers(checkpoint, manifest, open);
    read_wanted(std::span(wanted).subspan(first, end - first), readers, workers, placed);
    return std::string();
  });
  share_among(replicas, world, wanted, cuts, placed);
  check_whole_tensors(world, manifest, tables, placed, checkpoint.string());
}

// Collective over `world`. Rank 0 vouches for the manifest; the others get its text.
Manifest share_manifest(comm::ProcessGroup& world, const fs::path& checkpoint) {
  const std::string text =
      run_on_root(world, "rank 0 reads the manifest", [&] { return read_manifest_text(checkpoint); });
  Manifest manifest = parse_manifest(text, (checkpoint / kManifestName).string());  // all ranks at a time
  run_on_root(world, "rank 0 looks at the files", [&] {
    check_opened(checkpoint, manifest);
    return std::string();
  });
  return manifest;
}

// Collective over `world`.
Restored restore_one(comm::ProcessGroup& world, const fs::path& checkpoint, StateDict& state, const MatchRules& rules,
                     int workers) {
  const Manifest manifest = share_manifest(world, checkpoint);
  TensorMatch match = match_tensors(manifest, state, rules, checkpoint.string());
  fill(world, checkpoint, manifest, match.tensors, workers);
  return {checkpoint, manifest.step, manifest.ranks, manifest.training_state, std::move(match.notes)};
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

Restored restore_from(comm::ProcessGroup& world, const fs::path& path, StateDict& state, const MatchRules& rules,
                      int workers) {
  return restore_one(world, run_on_root(world, [&] { return resolve_checkpoint(path).string(); }), state, rules,
                     workers);
}

std::optional<Restored> restore_newest_sound(comm::ProcessGroup& world, const fs::path& directory, StateDict& state,
                                             const MatchRules& rules, int workers) {
  const std::vector<fs::path> candidates = share_candidates(world, directory);
  if (candidates.empty()) return std::nullopt;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    try {
      return restore_one(world, candidates[i], state, rules, workers);
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
