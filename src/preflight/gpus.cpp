#include "preflight/gpus.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "core/file_io.h"

namespace shoal::preflight {
namespace {

constexpr double kGiB = 1 << 30;

// What is found, with the verdict of the worst.
class Findings {
 public:
  explicit Findings(Record& record) : record_(&record) {}
  void add(Verdict verdict, const std::string& found, const std::string& advice) {
    record_->found += (record_->found.empty() ? "" : ", ") + found;
    if (verdict > record_->verdict) {
      record_->verdict = verdict;
      record_->advice = advice;
    }
  }

 private:
  Record* record_;
};

void judge_memory_errors(const GpuState& gpu, Findings& findings) {
  if (gpu.remap_failed)
    findings.add(Verdict::fail, "a broken row of memory has no spare", "the GPU must be replaced: leave the node out");
  if (gpu.ecc_uncorrected.value_or(0) > 0)
    findings.add(Verdict::fail, fmt::format("{} uncorrected memory errors (ECC)", *gpu.ecc_uncorrected),
                 "its results cannot be trusted: let the site reset the GPU; leave the node out meanwhile");
  if (gpu.retirement_pending)
    findings.add(Verdict::warn, "broken memory waits to be replaced", "let the site reset the GPU");
}

// 79: fallen off the bus, 48, 63, 64, 94, 95: memory, 74: NVLink, 119, 120: firmware. Others (13, 31, 43, 45) are the
// marks that programs with defects leave.
bool is_of_hardware(int xid) {
  constexpr std::array kHardware{48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140};
  return std::find(kHardware.begin(), kHardware.end(), xid) != kHardware.end();
}

void judge_xids(const GpuState& gpu, Findings& findings) {
  const std::set<int> kinds(gpu.xids.begin(), gpu.xids.end());
  if (kinds.empty()) return;
  const bool hardware = std::any_of(kinds.begin(), kinds.end(), is_of_hardware);
  findings.add(hardware ? Verdict::fail : Verdict::warn, fmt::format("Xid {} since boot", fmt::join(kinds, ", ")),
               hardware ? "the hardware failed: leave the node out, and tell the site"
                        : "mostly the marks of programs that failed: look at the kernel's log if it goes on");
}

void judge_clocks_of(const GpuState& gpu, Findings& findings) {
  const char* kAdvice = "it is slower than the others, and all wait for it: let the site look at cooling and power";
  if (gpu.slow_reasons & (kHardwareThermal | kSoftwareThermal))
    findings.add(Verdict::fail, "its clocks are lowered because it is hot", kAdvice);
  if (gpu.slow_reasons & kPowerBrake)
    findings.add(Verdict::fail, "its clocks are lowered by the power supply", kAdvice);
  if ((gpu.slow_reasons & kHardwareSlowdown) && !(gpu.slow_reasons & (kHardwareThermal | kPowerBrake)))
    findings.add(Verdict::fail, "its clocks are lowered by the hardware", kAdvice);
  constexpr int kNear = 5;
  if (gpu.temperature && gpu.slow_temperature && *gpu.temperature >= *gpu.slow_temperature - kNear)
    findings.add(Verdict::warn, fmt::format("{} °C idle, it slows down at {}", *gpu.temperature, *gpu.slow_temperature),
                 kAdvice);
}

void judge_others(const GpuState& gpu, Findings& findings) {
  // The driver itself takes some hundred MiB.
  if (gpu.used_bytes < kGiB && gpu.processes == 0) return;
  findings.add(Verdict::warn,
               fmt::format("{:.1f} of {:.1f} GiB are in use by {} other processes", gpu.used_bytes / kGiB,
                           gpu.total_bytes / kGiB, gpu.processes),
               "another job, or what is left of one, is on it (nvidia-smi)");
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// "00000000:1B:00.0" and "0000:1b:00" are one GPU: the domain without its leading zeros, bus and device.
std::string short_pci(const std::string& pci) {
  const std::string text = lower(pci.substr(0, pci.find('.')));
  return text.substr(std::min(text.find_first_not_of('0'), text.find(':')));
}

// What travels to the others: one line a GPU, "uuid driver".
std::string names_of(const GpuReading& reading) {
  std::string text;
  for (const GpuState& gpu : reading.gpus) text += fmt::format("{} {}\n", gpu.uuid, gpu.driver);
  return text;
}

std::string most_frequent(const std::vector<std::string>& values) {
  std::map<std::string, int> counts;
  for (const std::string& value : values)
    if (!value.empty()) ++counts[value];
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return counts.empty() ? "" : std::max_element(counts.begin(), counts.end(), less)->first;
}

}  // namespace

Record judge_gpu(const GpuState& gpu) {
  Record record{.code = ExitCode::device};
  Findings findings(record);
  judge_memory_errors(gpu, findings);
  judge_xids(gpu, findings);
  judge_clocks_of(gpu, findings);
  judge_others(gpu, findings);
  const std::string name = fmt::format("{} ({})", gpu.name, gpu.pci);
  record.found = record.found.empty() ? name : name + ": " + record.found;
  if (gpu.temperature) {
    record.value = *gpu.temperature;
    record.unit = "°C";
  }
  return record;
}

std::vector<int> xids_in(const std::string& kernel_log, const std::string& pci) {
  constexpr std::string_view kMark = "NVRM: Xid (PCI:";
  std::vector<int> xids;
  for (std::size_t at = kernel_log.find(kMark); at != kernel_log.npos; at = kernel_log.find(kMark, at)) {
    at += kMark.size();
    const std::size_t end = kernel_log.find("): ", at);
    if (end == kernel_log.npos) break;
    if (short_pci(kernel_log.substr(at, end - at)) != short_pci(pci)) continue;
    int xid = 0;
    const char* text = kernel_log.data() + end + 3;
    if (std::from_chars(text, kernel_log.data() + kernel_log.size(), xid).ec == std::errc()) xids.push_back(xid);
  }
  return xids;
}

std::optional<std::string> read_kernel_log() {
  const Descriptor log(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log) return std::nullopt;
  std::string text;
  std::array<char, 8192> line{};  // one record a read
  for (;;) {
    const ssize_t got = ::read(log.get(), line.data(), line.size());
    if (got < 0 && errno == EPIPE) continue;  // overwritten meanwhile: go on with the next
    if (got <= 0) return text;
    text.append(line.data(), static_cast<std::size_t>(got));
  }
}

std::vector<Record> judge_drivers(const std::vector<std::string>& of_ranks, const std::vector<std::string>& hosts) {
  const std::string usual = most_frequent(of_ranks);
  std::vector<Record> records;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].empty() || of_ranks[rank] == usual) continue;
    records.push_back({.host = hosts[rank],
                       .rank = static_cast<int>(rank),
                       .verdict = Verdict::fail,
                       .found = fmt::format("driver {}, most nodes have {}", of_ranks[rank], usual),
                       .advice = "leave the node out until the site has brought it up to date",
                       .code = ExitCode::device});
  }
  return records;
}

CheckResult check_gpus(Context& context) {
  constexpr const char* kActivity = "the health of the GPUs";
  context.begin(kActivity);
  const GpuReading reading = read_gpus();
  const std::vector<std::string> names = context.exchange(kActivity, names_of(reading));
  // Ranks of a node mostly see the same GPUs.
  std::set<std::string> judged;
  std::vector<std::string> drivers;
  for (int rank = 0; rank < context.size(); ++rank) {
    std::istringstream lines(names[static_cast<std::size_t>(rank)]);
    drivers.emplace_back();
    for (std::string uuid; lines >> uuid >> drivers.back();)
      if (rank < context.rank()) judged.insert(uuid);
  }
  CheckResult check{.name = "gpu.health"};
  check.records = context.gather_all(kActivity, [&] {
    std::vector<Record> records;
    for (const GpuState& gpu : reading.gpus)
      if (judged.insert(gpu.uuid).second) records.push_back(judge_gpu(gpu));
    if (reading.gpus.empty()) records.push_back({.verdict = Verdict::skipped, .found = reading.none});
    return records;
  });
  const auto gpus = std::count_if(check.records.begin(), check.records.end(),
                                  [](const Record& record) { return record.verdict != Verdict::skipped; });
  const std::vector<Record> different = judge_drivers(drivers, context.hosts());
  check.records.insert(check.records.end(), different.begin(), different.end());
  const std::string driver = most_frequent(drivers);
  check.summary =
      gpus > 0 ? fmt::format("{} GPUs, driver {}, {}", gpus, driver, range_of(check.records)) : check.records[0].found;
  return check;
}

}  // namespace shoal::preflight
