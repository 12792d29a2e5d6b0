#include "checkpoint/consolidate.h"

#include <system_error>

#include "checkpoint/catalog.h"
#include "checkpoint/consolidate_targets.h"
#include "checkpoint/shard_reader.h"
#include "core/check.h"
#include "core/logging.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// The output under construction: gone after an error, renamed into place after success.
class PartFile {
 public:
  explicit PartFile(const fs::path& output) : output_(output), part_(output.string() + ".part") {}
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() {
    if (finished_) return;
    if (const std::error_code error = try_remove(part_))
      log::warning("{} could not be removed: {}", part_.string(), error.message());
  }
  const fs::path& path() const { return part_; }
  void finish() {
    rename_path(part_, output_);
    finished_ = true;
    sync_directory(directory_of(output_));
  }

 private:
  fs::path output_, part_;
  bool finished_ = false;
};

void check_output(const ConsolidateOptions& options) {
  std::error_code ignored;
  SHOAL_CHECK(options.force || !fs::exists(options.output, ignored), OptionError,
              "{} exists; give --force to replace it, or another --output", options.output.string());
  SHOAL_CHECK(!fs::is_directory(options.output, ignored), OptionError, "--output {} is a directory; give a file name",
              options.output.string());
}

ConsolidateTarget make_target(const ConsolidateOptions& options, const fs::path& path, const Manifest& manifest) {
  if (options.format == ConsolidatedFormat::hdf5) return make_hdf5_target(path, manifest, options.with_optimizer);
  SHOAL_CHECK(!options.with_optimizer, OptionError, "--with-optimizer needs --format hdf5");
  return make_torch_target(path, manifest);
}

// Returns the bytes copied.
std::int64_t copy_file(ShardReader& reader, ConsolidateTarget& target) {
  std::int64_t copied = 0;
  for (std::size_t region = 0; region < reader.regions().size(); ++region) {
    const std::size_t tensor = reader.regions()[region].tensor;
    if (target.offsets[tensor] == kNotWanted) continue;
    reader.read(region, [&](std::int64_t offset, const std::byte* data, std::size_t bytes) {
      target.file.write_at(target.offsets[tensor] + offset, data, bytes);
      if (target.note_piece) target.note_piece(tensor, offset, data, bytes);
      copied += static_cast<std::int64_t>(bytes);
    });
  }
  return copied;
}

// File by file; CheckpointError where the files leave a hole, which is known when all tables were seen.
std::int64_t copy_all(const fs::path& checkpoint, const Manifest& manifest, ConsolidateTarget& target) {
  std::int64_t copied = 0;
  std::vector<RegionTable> tables;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    ShardReader reader(checkpoint, manifest, i);
    copied += copy_file(reader, target);
    tables.push_back(reader.regions());
  }
  check_coverage(tables, manifest, checkpoint.string());
  return copied;
}

}  // namespace

ConsolidateReport consolidate(const ConsolidateOptions& options) {
  const Timer timer;
  check_output(options);
  const Manifest manifest = open_checkpoint(options.checkpoint);
  PartFile part(options.output);
  ConsolidateTarget target = make_target(options, part.path(), manifest);
  ConsolidateReport report;
  report.bytes = copy_all(options.checkpoint, manifest, target);
  for (const std::int64_t offset : target.offsets) report.tensors += offset != kNotWanted;
  if (target.records)
    for (const auto& [offset, bytes] : target.records())
      target.file.write_at(static_cast<std::int64_t>(offset), bytes.data(), bytes.size());
  target.file.sync();
  target.file.close();
  part.finish();
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint
