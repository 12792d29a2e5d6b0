#include "checkpoint/verify.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "checkpoint/catalog.h"
#include "checkpoint/shard_reader.h"
#include "core/error.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace {

// A region to be read. The file stays open as long as somebody reads one of its regions.
struct Item {
  std::shared_ptr<const ShardReader> reader;
  std::size_t file = 0, region = 0;
};

struct FoundProblem {
  std::size_t file, region;
  std::string text;
};

// Hands out the regions file by file, so that about as many files are open as there are workers.
class Verification {
 public:
  Verification(const Manifest& manifest, VerifyReport& report) : manifest_(&manifest), report_(&report) {
    const bool one_a_rank = static_cast<int>(manifest.files.size()) == manifest.ranks;
    for (const ShardFile& file : manifest.files)
      report.files.push_back(
          {file.name, static_cast<int>(report.files.size()), one_a_rank, file.bytes, file.regions, {}});
  }

  using Progress = std::function<void(std::int64_t bytes)>;
  void work(const Progress& progress = {}) {
    std::vector<std::byte> buffer;
    try {
      while (const std::optional<Item> item = next()) check(*item, buffer, progress);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  // Once all workers are done.
  void finish() {
    if (failure_) std::rethrow_exception(failure_);
    std::sort(problems_.begin(), problems_.end(), [](const FoundProblem& a, const FoundProblem& b) {
      return std::pair(a.file, a.region) < std::pair(b.file, b.region);
    });
    for (FoundProblem& problem : problems_) {
      const RegionRow& row = tables_[problem.file][problem.region];
      report_->files[problem.file].problems.push_back({std::move(problem.text), region_of(row)});
    }
    report_->bytes = bytes_;
    try {
      check_coverage(tables_, *manifest_, report_->path.string());
    } catch (const CheckpointError& error) {
      report_->problems.emplace_back(error.what());
    }
  }

 private:
  DamagedRegion region_of(const RegionRow& row) const {
    const auto& [spec, rule] = manifest_->tensors[row.tensor];
    const auto begin = static_cast<std::int64_t>(row.begin);
    return {spec.name, begin, static_cast<std::int64_t>(row.count),
            rule.shard_numel > 0 ? (rule.unit_offset + begin) / rule.shard_numel : 0};
  }

  std::optional<Item> next() {
    const std::lock_guard lock(mutex_);
    if (failure_) return std::nullopt;
    while (!current_.reader || current_.region >= current_.reader->regions().size()) {
      current_.reader.reset();
      if (tables_.size() == manifest_->files.size()) return std::nullopt;
      open(tables_.size());
    }
    Item item = current_;
    ++current_.region;
    return item;
  }

  // Leaves the table empty where the file is not readable as a shard at all.
  void open(std::size_t file) {
    RegionTable& table = tables_.emplace_back();
    try {
      current_ = {std::make_shared<const ShardReader>(report_->path, *manifest_, file), file, 0};
      table = current_.reader->regions();
    } catch (const CheckpointError& error) {
      report_->files[file].problems.push_back({error.what(), std::nullopt});
    }
  }

  void check(const Item& item, std::vector<std::byte>& buffer, const Progress& progress) {
    try {
      static_cast<void>(item.reader->locate(item.region));  // other HDF5 tools find it, too
      item.reader->read(
          item.region,
          [&](std::int64_t, const std::byte*, std::size_t bytes) {
            bytes_ += static_cast<std::int64_t>(bytes);
            if (progress) progress(bytes_);
          },
          buffer);
    } catch (const CheckpointError& error) {
      const std::lock_guard lock(mutex_);
      problems_.push_back({item.file, item.region, error.what()});
    }
  }

  const Manifest* manifest_;
  VerifyReport* report_;
  std::atomic<std::int64_t> bytes_{0};
  std::mutex mutex_;  // of all below
  Item current_;
  std::vector<RegionTable> tables_;
  std::vector<FoundProblem> problems_;
  std::exception_ptr failure_;
};

}  // namespace

std::int64_t VerifyReport::problem_count() const {
  std::size_t count = problems.size();
  for (const FileCheck& file : files) count += file.problems.size();
  return static_cast<std::int64_t>(count);
}

std::string VerifyReport::first_problem() const {
  for (const FileCheck& file : files)
    if (!file.problems.empty()) return file.problems.front().text;
  return problems.empty() ? "" : problems.front();
}

VerifyReport verify_files(const std::filesystem::path& directory, const Manifest& manifest, int workers,
                          const std::function<void(std::int64_t bytes)>& progress) {
  const Timer timer;
  VerifyReport report;
  report.path = directory;
  Verification verification(manifest, report);
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < workers; ++i) others.emplace_back([&] { verification.work(); });
    verification.work(progress);
  }
  verification.finish();
  report.seconds = timer.seconds();
  return report;
}

VerifyReport verify(const std::filesystem::path& checkpoint, int workers) {
  return verify_files(checkpoint, read_manifest(checkpoint), workers);
}

std::string problem_of(const std::filesystem::path& checkpoint, int workers) {
  try {
    return verify(checkpoint, workers).first_problem();
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

int default_workers() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 4); }

}  // namespace shoal::checkpoint
