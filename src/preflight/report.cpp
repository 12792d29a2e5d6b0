#include "preflight/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "launch/hostlist.h"
#include "launch/number_ranges.h"

namespace shoal::preflight {
namespace {

std::set<std::string> hosts_with(const CheckResult& check, bool failed) {
  std::set<std::string> hosts;
  for (const Record& record : check.records)
    if ((record.verdict == Verdict::fail) == failed) hosts.insert(record.host);
  return hosts;
}

// "n[1-3]"; hosts whose names no host list can hold are joined by commas.
std::string short_form(const std::vector<std::string>& hosts) {
  try {
    return launch::compress_hostlist(hosts);
  } catch (const Error&) {
    return fmt::format("{}", fmt::join(hosts, ","));
  }
}

struct Finding {
  Verdict verdict;
  std::string found, advice;
  std::vector<std::string> hosts;
  std::vector<int> ranks;
};

// Records that say the same are one finding.
std::vector<Finding> findings_of(const CheckResult& check) {
  std::vector<Finding> findings;
  for (const Record& record : check.records) {
    if (record.verdict < Verdict::warn) continue;
    auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) {
      return f.verdict == record.verdict && f.found == record.found && f.advice == record.advice;
    });
    if (same == findings.end())
      same = findings.insert(findings.end(), {record.verdict, record.found, record.advice, {}, {}});
    if (std::find(same->hosts.begin(), same->hosts.end(), record.host) == same->hosts.end())
      same->hosts.push_back(record.host);
    same->ranks.push_back(record.rank);
  }
  return findings;
}

std::string lines_of(const CheckResult& check) {
  std::string text = fmt::format("{:<18} {:<5} {}\n", check.name, name_of(worst_of(check)), check.summary);
  for (const Finding& finding : findings_of(check))
    text += fmt::format("    {} {} (rank{} {}): {}{}{}\n", name_of(finding.verdict), short_form(finding.hosts),
                        finding.ranks.size() == 1 ? "" : "s", launch::ranges_text(finding.ranks), finding.found,
                        finding.advice.empty() ? "" : ": ", finding.advice);
  return text;
}

std::size_t count(const Report& report, Verdict verdict) {
  const auto is = [&](const CheckResult& check) { return worst_of(check) == verdict; };
  return static_cast<std::size_t>(std::count_if(report.checks.begin(), report.checks.end(), is));
}

std::size_t host_count(const Report& report) {
  return std::set<std::string>(report.hosts.begin(), report.hosts.end()).size();
}

}  // namespace

std::vector<std::string> bad_hosts(const Report& report) {
  std::set<std::string> bad;
  for (const CheckResult& check : report.checks) {
    // A host where one rank of several failed is as bad as one where all did.
    const std::set<std::string> failed = hosts_with(check, true);
    std::set<std::string> all = hosts_with(check, false);
    all.insert(failed.begin(), failed.end());
    if (all.size() > 1 && 2 * failed.size() <= all.size()) bad.insert(failed.begin(), failed.end());
  }
  std::vector<std::string> ordered;
  for (const std::string& host : report.hosts)
    if (bad.erase(host) > 0) ordered.push_back(host);
  return ordered;
}

ExitCode exit_code_of(const Report& report) {
  constexpr std::array kOrder{ExitCode::communication, ExitCode::device, ExitCode::io};
  ExitCode worst = ExitCode::ok;
  std::size_t weight = kOrder.size() + 1;
  for (const CheckResult& check : report.checks) {
    for (const Record& record : check.records) {
      if (record.verdict != Verdict::fail) continue;
      const auto place =
          static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), record.code) - kOrder.begin());
      if (place >= weight) continue;
      weight = place;
      worst = record.code;
    }
  }
  return worst;
}

std::string table_of(const Report& report) {
  std::string text = fmt::format("{:<18} {:<5} {}\n", "check", "", "found");
  for (const CheckResult& check : report.checks) text += lines_of(check);
  text +=
      fmt::format("\npreflight of {} ranks on {} hosts in {:.1f} s: {} checks, {} failed, {} with warnings, {} skipped",
                  report.hosts.size(), host_count(report), report.seconds, report.checks.size(),
                  count(report, Verdict::fail), count(report, Verdict::warn), count(report, Verdict::skipped));
  const std::vector<std::string> bad = bad_hosts(report);
  if (!bad.empty()) text += fmt::format("\nbad hosts: sbatch --exclude={}", short_form(bad));
  return text;
}

std::string json_of(const Report& report) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const CheckResult& check : report.checks) {
    nlohmann::ordered_json records = nlohmann::ordered_json::array();
    for (const Record& record : check.records) {
      nlohmann::ordered_json one{{"host", record.host}, {"rank", record.rank}, {"verdict", name_of(record.verdict)}};
      if (record.value) one.update({{"value", *record.value}, {"unit", record.unit}});
      one.update({{"found", record.found}, {"advice", record.advice}});
      records.push_back(std::move(one));
    }
    checks.push_back({{"check", check.name},
                      {"verdict", name_of(worst_of(check))},
                      {"summary", check.summary},
                      {"records", std::move(records)}});
  }
  const std::vector<std::string> bad = bad_hosts(report);
  const nlohmann::ordered_json whole{{"ranks", report.hosts.size()},
                                     {"hosts", host_count(report)},
                                     {"seconds", report.seconds},
                                     {"exit_code", static_cast<int>(exit_code_of(report))},
                                     {"bad_hosts", bad},
                                     {"exclude", bad.empty() ? "" : short_form(bad)},
                                     {"checks", std::move(checks)}};
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace shoal::preflight
