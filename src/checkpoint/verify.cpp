#include "checkpoint/verify.h"

#include "checkpoint/catalog.h"
#include "checkpoint/shard_reader.h"
#include "core/error.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace {

// Returns the table, empty where the file is not readable as a shard at all.
RegionTable verify_file(const Manifest& manifest, std::size_t index, VerifyReport& report) {
  const ShardFile& expected = manifest.files[index];
  FileCheck& check = report.files.emplace_back(FileCheck{expected.name, expected.bytes, expected.regions, {}});
  try {
    ShardReader reader(report.path, manifest, index);
    for (std::size_t region = 0; region < reader.regions().size(); ++region) {
      try {
        reader.read(region, [&](std::int64_t, const std::byte*, std::size_t bytes) {
          report.bytes += static_cast<std::int64_t>(bytes);
        });
      } catch (const CheckpointError& error) {
        check.problems.emplace_back(error.what());
      }
    }
    return reader.regions();
  } catch (const CheckpointError& error) {
    check.problems.emplace_back(error.what());
    return {};
  }
}

}  // namespace

std::int64_t VerifyReport::problem_count() const {
  std::size_t count = problems.size();
  for (const FileCheck& file : files) count += file.problems.size();
  return static_cast<std::int64_t>(count);
}

VerifyReport verify(const std::filesystem::path& checkpoint) {
  const Timer timer;
  VerifyReport report;
  report.path = checkpoint;
  const Manifest manifest = read_manifest(checkpoint);
  std::vector<RegionTable> tables;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) tables.push_back(verify_file(manifest, i, report));
  try {
    check_coverage(tables, manifest, checkpoint.string());
  } catch (const CheckpointError& error) {
    report.problems.emplace_back(error.what());
  }
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint
