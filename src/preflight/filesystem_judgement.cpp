#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "preflight/filesystem.h"

namespace shoal::preflight {

std::vector<Record> judge_exclusive(const std::vector<std::vector<int>>& won, int names) {
  std::vector<int> winners(static_cast<std::size_t>(names), 0);
  for (const auto& of_rank : won)
    for (const int name : of_rank) ++winners.at(static_cast<std::size_t>(name));
  const bool lost = std::find(winners.begin(), winners.end(), 0) != winners.end();
  std::vector<Record> records;
  for (const auto& of_rank : won) {
    Record record{.code = ExitCode::io};
    const auto shared = std::count_if(of_rank.begin(), of_rank.end(),
                                      [&](int name) { return winners[static_cast<std::size_t>(name)] > 1; });
    if (shared > 0 || lost) {
      record.verdict = Verdict::fail;
      record.found = shared > 0 ? fmt::format("{} of {} files were made by this rank and by another", shared, names)
                                : std::string("some files were made by no rank, though none was there");
      record.advice =
          "exclusive creation (O_EXCL) does not work between nodes here, and attempts of a job could not be told "
          "apart: "
          "use another file system";
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::string summary_of(const std::vector<FileSpeed>& speeds) {
  double bytes = 0, seconds = 0;
  std::vector<Record> each;
  std::int64_t most = 0;
  for (const FileSpeed& speed : speeds) {
    if (speed.bytes == 0 || speed.seconds <= 0) continue;
    bytes += static_cast<double>(speed.bytes);
    seconds = std::max(seconds, speed.seconds);
    most = std::max(most, speed.bytes);
    each.push_back({.value = static_cast<double>(speed.bytes) / 1e9 / speed.seconds, .unit = "GB/s"});
  }
  if (each.empty()) return "nothing could be measured";
  return fmt::format("{:.3g} GB/s in all, {} a rank, {} MiB each", bytes / 1e9 / seconds, range_of(each), most >> 20);
}

void warn_of_slow(std::vector<Record>& records) {
  // Ranks of one node take from each other.
  std::map<std::string, std::vector<double>> of_hosts;
  for (const Record& record : records)
    if (record.value) of_hosts[record.host].push_back(*record.value);
  std::map<std::string, double> speeds;
  std::vector<double> all;
  for (const auto& [host, values] : of_hosts) {
    speeds[host] = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    all.push_back(speeds[host]);
  }
  const double median = median_of(all);
  for (Record& record : records) {
    if (!record.value || record.verdict != Verdict::ok || speeds[record.host] >= median / 2) continue;
    record.verdict = Verdict::warn;
    record.found = fmt::format("{:.3g} GB/s a rank, the median of all hosts is {:.3g}", speeds[record.host], median);
    record.advice = "this node is slower than the others, or shares its way to the disks";
  }
}

}  // namespace shoal::preflight
