#include "preflight/limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <functional>
#include <string>

#include "preflight/gpu_bus.h"

namespace shoal::preflight {
namespace {

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

std::optional<std::uint64_t> limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return limit.rlim_cur;
}

bool has_infiniband() {
  std::error_code absent;
  return !std::filesystem::is_empty("/sys/class/infiniband", absent) && !absent;
}

Record measured(std::optional<std::uint64_t> limit, double unit_bytes, const char* unit) {
  Record record{.unit = unit, .found = "unlimited", .code = ExitCode::usage};
  if (limit) {
    record.value = static_cast<double>(*limit) / unit_bytes;
    record.found = fmt::format("{:.6g}{}{}", *record.value, *unit ? " " : "", unit);
  }
  return record;
}

void set(Record& record, Verdict verdict, std::string found, std::string advice) {
  record.verdict = verdict;
  record.found = std::move(found);
  record.advice = std::move(advice);
}

// All ranks alike: what the first says; else the range.
std::string summary_of(const std::vector<Record>& records) {
  for (const Record& record : records)
    if (record.found != records.front().found) return range_of(records);
  return records.front().found;
}

}  // namespace

Limits read_limits(const Context& context) {
  Limits limits{.open_files = limit_of(RLIMIT_NOFILE),
                .locked_memory = limit_of(RLIMIT_MEMLOCK),
                .stack = limit_of(RLIMIT_STACK),
                .core = limit_of(RLIMIT_CORE),
                .file_size = limit_of(RLIMIT_FSIZE),
                .has_infiniband = has_infiniband(),
                .nccl_version = nccl_version(),
                .local_size = context.local_size()};
  struct statvfs shared {};
  limits.has_shared_memory = statvfs("/dev/shm", &shared) == 0;
  if (limits.has_shared_memory)
    limits.shared_memory_free = static_cast<std::uint64_t>(shared.f_bavail) * shared.f_frsize;
  return limits;
}

Record judge_open_files(const Limits& limits) {
  // A rank has sockets to its peers, files of data, shared libraries; the usual hard limit is half a million.
  constexpr std::uint64_t kFew = 256, kEnough = 4096;
  Record record = measured(limits.open_files, 1, "files");
  if (!limits.open_files || *limits.open_files >= kEnough) return record;
  set(record, *limits.open_files < kFew ? Verdict::fail : Verdict::warn,
      fmt::format("ulimit -n is {}", *limits.open_files),
      fmt::format("connections of MPI and NCCL take files: 'ulimit -n {}' or more in the job script", 65536));
  return record;
}

Record judge_locked_memory(const Limits& limits) {
  Record record = measured(limits.locked_memory, kMiB, "MiB");
  constexpr std::uint64_t kEnough = std::uint64_t{1} << 30;
  if (!limits.locked_memory || *limits.locked_memory >= kEnough) return record;
  if (!limits.has_infiniband) {
    record.found += ", no InfiniBand needs more";
    return record;
  }
  set(record, Verdict::fail, fmt::format("ulimit -l is {:.0f} KiB", static_cast<double>(*limits.locked_memory) / 1024),
      "InfiniBand registers memory, which must be locked: let the site set memlock to unlimited (limits.conf, and "
      "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf)");
  return record;
}

Record judge_stack(const Limits& limits) {
  Record record = measured(limits.stack, kMiB, "MiB");
  constexpr int kFixed = 22800;
  if (limits.stack) return record;
  if (limits.nccl_version >= kFixed) {
    record.found = "unlimited, which NCCL takes since 2.28";
    return record;
  }
  if (limits.nccl_version == 0) return record;
  set(record, Verdict::warn, "ulimit -s is unlimited",
      "NCCL before 2.28 then gives its threads 2 MiB and may crash: 'ulimit -s 8192' in the job script");
  return record;
}

Record judge_core_files(const Limits& limits) {
  // Some want them: the size is told, not judged.
  Record record = measured(limits.core, kMiB, "MiB");
  if (!limits.core || *limits.core > 0) record.found += "; 'ulimit -c 0' spares a full disk when many ranks crash";
  return record;
}

Record judge_shared_memory(const Limits& limits) {
  Record record{.unit = "GiB", .code = ExitCode::usage};
  if (!limits.has_shared_memory) {
    set(record, Verdict::fail, "there is no /dev/shm",
        "MPI and NCCL exchange data of one node there: mount a tmpfs (container option --shm-size)");
    return record;
  }
  record.value = static_cast<double>(limits.shared_memory_free) / kGiB;
  record.found = fmt::format("{:.3g} GiB free", *record.value);
  // A rank takes some ten MiB for each connection within the node.
  const double little = 64 * kMiB * limits.local_size;
  if (static_cast<double>(limits.shared_memory_free) >= 4 * little) return record;
  set(record, static_cast<double>(limits.shared_memory_free) < little ? Verdict::fail : Verdict::warn,
      fmt::format("{:.0f} MiB are free in /dev/shm for {} ranks", *record.value * 1024, limits.local_size),
      "remove what crashed jobs left there, or make it larger (container option --shm-size)");
  return record;
}

Record judge_file_size(const Limits& limits, std::uint64_t bytes) {
  Record record = measured(limits.file_size, kMiB, "MiB");
  if (!limits.file_size || (bytes > 0 && bytes <= *limits.file_size)) return record;
  set(record, bytes > *limits.file_size ? Verdict::fail : Verdict::warn,
      fmt::format("ulimit -f is {:.0f} MiB", *record.value),
      bytes > 0 ? fmt::format("a rank's file of a checkpoint has {:.0f} MiB: 'ulimit -f unlimited'",
                              static_cast<double>(bytes) / kMiB)
                : std::string("a checkpoint may not fit: 'ulimit -f unlimited'"));
  return record;
}

std::vector<CheckResult> check_limits(Context& context, std::uint64_t file_bytes) {
  const Limits limits = read_limits(context);
  const std::vector<std::pair<const char*, std::function<Record()>>> checks{
      {"limit.open-files", [&] { return judge_open_files(limits); }},
      {"limit.memlock", [&] { return judge_locked_memory(limits); }},
      {"limit.stack", [&] { return judge_stack(limits); }},
      {"limit.core", [&] { return judge_core_files(limits); }},
      {"limit.file-size", [&] { return judge_file_size(limits, file_bytes); }},
      {"limit.dev-shm", [&] { return judge_shared_memory(limits); }}};
  std::vector<CheckResult> results;
  for (const auto& [name, judge] : checks) {
    std::vector<Record> records = context.gather("the limits of the system", judge);
    const std::string summary = summary_of(records);
    results.push_back({name, summary, std::move(records)});
  }
  return results;
}

}  // namespace shoal::preflight
