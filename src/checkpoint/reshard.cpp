#include "checkpoint/reshard.h"

#include <system_error>

#include "checkpoint/attempt.h"
#include "checkpoint/catalog.h"
#include "checkpoint/reshard_targets.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/verify.h"
#include "core/check.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// A directory of its own, so that no running job can be in the way and `latest` is not in doubt.
void check_output(const fs::path& output) {
  std::error_code error;
  const bool usable = !fs::exists(output, error) || (fs::is_directory(output, error) && fs::is_empty(output, error));
  SHOAL_CHECK(!error, IoError, "cannot examine {}: {}", output.string(), error.message());
  SHOAL_CHECK(usable, OptionError, "--output {} is there and not empty; give a new directory of checkpoints",
              output.string());
}

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

void check_result(const VerifyReport& result) {
  SHOAL_CHECK(result.problem_count() == 0, IoError, "the new checkpoint does not read back as it was written: {}",
              result.first_problem());
}

}  // namespace

ReshardReport reshard(const ReshardOptions& options) {
  const Timer timer;
  SHOAL_CHECK(options.ranks >= 1, OptionError, "--ranks {} is no number of ranks; give 1 or more", options.ranks);
  check_output(options.output);
  Manifest manifest = open_checkpoint(options.checkpoint);
  ReshardReport report;
  report.ranks_before = manifest.ranks;
  const Attempt attempt = begin_attempt(options.output, manifest.step);
  try {
    const std::vector<SavedTensor> tensors = cut_for_ranks(manifest.tensors, options.ranks);
    ReshardTargets targets(attempt.path, attempt.id, attempt.step, tensors, options.ranks);
    copy_files(options.checkpoint, manifest, targets);
    manifest.id = attempt.id;
    manifest.sequence = attempt.sequence;
    manifest.ranks = options.ranks;
    manifest.tensors = tensors;
    manifest.files = targets.finish();
    const VerifyReport result = verify_files(attempt.path, manifest, options.workers);
    check_result(result);
    report.bytes = result.bytes;
    report.verify_seconds = result.seconds;
    report.path = commit(attempt, manifest);
  } catch (...) {
    abandon(attempt);
    throw;
  }
  tidy_up(options.output, 1);
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint
