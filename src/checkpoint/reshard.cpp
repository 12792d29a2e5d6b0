#include "checkpoint/reshard.h"

#include <utility>

#include "checkpoint/catalog.h"
#include "checkpoint/new_directory.h"
#include "checkpoint/shard_reader.h"
#include "core/check.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

void copy_files(const fs::path& checkpoint, const Manifest& manifest, ReshardTargets& targets) {
  std::vector<RegionTable> tables;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    ShardReader reader(checkpoint, manifest, i);
    for (std::size_t region = 0; region < reader.regions().size(); ++region)
      reader.read(region, [&](std::int64_t offset, const std::byte* data, std::size_t bytes) {
        targets.write(reader.regions()[region].tensor, offset, data, bytes);
      });
    tables.push_back(reader.regions());
  }
  check_coverage(tables, manifest, checkpoint.string());
}

}  // namespace

ReshardReport reshard(const ReshardOptions& options) {
  const Timer timer;
  SHOAL_CHECK(options.ranks >= 1, OptionError, "--ranks {} is no number of ranks; give 1 or more", options.ranks);
  check_new_directory(options.output);
  const Manifest manifest = open_checkpoint(options.checkpoint);
  ReshardReport report;
  report.ranks_before = manifest.ranks;
  Manifest cut = manifest;
  cut.ranks = options.ranks;
  cut.tensors = cut_for_ranks(manifest.tensors, options.ranks);
  const NewCheckpoint made =
      write_new_checkpoint(options.output, std::move(cut), options.workers,
                           [&](ReshardTargets& targets) { copy_files(options.checkpoint, manifest, targets); });
  report.path = made.path;
  report.bytes = made.bytes;
  report.verify_seconds = made.verify_seconds;
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint
