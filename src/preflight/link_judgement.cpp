#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "preflight/links.h"

namespace shoal::preflight {
namespace {

constexpr double kSlow = 0.5, kLate = 4;  // times the median

using Better = std::function<bool(double, double)>;

std::vector<double> answered(const LinkTable& table, double Link::*value) {
  std::vector<double> values;
  for (const Link& link : table.links)
    if (link.answered) values.push_back(link.*value);
  return values;
}

std::vector<const Link*> links_of(const LinkTable& table, int endpoint) {
  std::vector<const Link*> links;
  for (const Link& link : table.links)
    if (link.a == endpoint || link.b == endpoint) links.push_back(&link);
  return links;
}

std::optional<double> best_of(const LinkTable& table, int endpoint, double Link::*value, const Better& better) {
  std::optional<double> best;
  for (const Link* link : links_of(table, endpoint))
    if (link->answered && (!best || better(link->*value, *best))) best = link->*value;
  return best;
}

// Of the hosts' best links: a bad host spoils a part of all pairs that is large where the hosts are few, but one of
// these.
double usual_best(const LinkTable& table, double Link::*value, const Better& better) {
  std::vector<double> values;
  for (int e = 0; e < static_cast<int>(table.endpoints.size()); ++e)
    if (const auto best = best_of(table, e, value, better)) values.push_back(*best);
  return median_of(values);
}

const std::string& host(const LinkTable& table, int endpoint) {
  return table.endpoints[static_cast<std::size_t>(endpoint)].host;
}

Record record_for(const LinkTable& table, int endpoint) {
  return {.host = host(table, endpoint),
          .rank = table.endpoints[static_cast<std::size_t>(endpoint)].rank,
          .code = ExitCode::communication};
}

std::string summary_of(const LinkTable& table, double Link::*value, const char* unit) {
  if (table.endpoints.size() < 2) return "one rank: nothing to measure";
  const std::vector<double> values = answered(table, value);
  if (values.empty()) return fmt::format("none of {} pairs answered", table.links.size());
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{:.3g} {} median, {:.3g} … {:.3g}, {} pairs {}", median_of(values), unit, *low, *high,
                     table.links.size(),
                     table.between_nodes ? fmt::format("of {} nodes", table.endpoints.size()) : "within one node");
}

// Of hosts that are well: pairs that are not.
void add_slow_pairs(const LinkTable& table, double median, CheckResult& check) {
  for (const Link& link : table.links) {
    auto& a = check.records[static_cast<std::size_t>(link.a)];
    const auto& b = check.records[static_cast<std::size_t>(link.b)];
    if (a.verdict == Verdict::fail || b.verdict == Verdict::fail) continue;
    if (link.answered && link.gigabytes_per_second >= kSlow * median) continue;
    a.verdict = Verdict::warn;
    a.advice = "both have good links to others: look at the switches and cables between them";
    a.found += (a.found.empty() ? "" : ", ") +
               (link.answered ? fmt::format("{:.3g} GB/s to {}, the median of all pairs is {:.3g}",
                                            link.gigabytes_per_second, host(table, link.b), median)
                              : fmt::format("no answer from {} within 5 s", host(table, link.b)));
  }
}

}  // namespace

CheckResult judge_bandwidth(const LinkTable& table) {
  CheckResult check{
      .name = "mpi.bandwidth", .summary = summary_of(table, &Link::gigabytes_per_second, "GB/s"), .records = {}};
  const double median = usual_best(table, &Link::gigabytes_per_second, std::greater<>());
  for (int e = 0; e < static_cast<int>(table.endpoints.size()); ++e) {
    Record record = record_for(table, e);
    record.value = best_of(table, e, &Link::gigabytes_per_second, std::greater<>());
    record.unit = "GB/s";
    if (!record.value && !links_of(table, e).empty()) {
      record.verdict = Verdict::fail;
      record.found = "no message comes through to or from this host within 5 s";
      record.advice = "look at its network; leave it out of the job";
    } else if (record.value && table.between_nodes && *record.value < kSlow * median) {
      record.verdict = Verdict::fail;
      record.found =
          fmt::format("its best link has {:.3g} GB/s, the median of all hosts is {:.3g}", *record.value, median);
      record.advice = "leave it out of the job, and tell the site";
    }
    check.records.push_back(std::move(record));
  }
  if (table.between_nodes) add_slow_pairs(table, median_of(answered(table, &Link::gigabytes_per_second)), check);
  if (table.endpoints.size() < 2)
    for (Record& record : check.records) record.verdict = Verdict::skipped;
  return check;
}

CheckResult judge_latency(const LinkTable& table) {
  CheckResult check{.name = "mpi.latency", .summary = summary_of(table, &Link::latency_us, "us"), .records = {}};
  const double median = usual_best(table, &Link::latency_us, std::less<>());
  for (int e = 0; e < static_cast<int>(table.endpoints.size()); ++e) {
    Record record = record_for(table, e);
    record.value = best_of(table, e, &Link::latency_us, std::less<>());
    record.unit = "us";
    if (record.value && table.between_nodes && *record.value > kLate * median) {
      record.verdict = Verdict::warn;
      record.found = fmt::format("at best {:.3g} us, the median of all hosts is {:.3g}", *record.value, median);
      record.advice = "look whether it takes another network than the others, or is busy with other work";
    }
    if (table.endpoints.size() < 2) record.verdict = Verdict::skipped;
    check.records.push_back(std::move(record));
  }
  return check;
}

}  // namespace shoal::preflight
