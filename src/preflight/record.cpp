#include "preflight/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace shoal::preflight {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::skipped: return "skip";
    case Verdict::warn: return "warn";
    case Verdict::fail: return "fail";
  }
  return "?";
}

Verdict worst_of(const CheckResult& check) {
  Verdict worst = check.records.empty() ? Verdict::skipped : Verdict::ok;
  bool any_done = false;
  for (const Record& record : check.records) {
    any_done = any_done || record.verdict == Verdict::ok;
    worst = std::max(worst, record.verdict);
  }
  // Skipped on some ranks only: it was done where it can be.
  return worst == Verdict::skipped && any_done ? Verdict::ok : worst;
}

std::string to_text(const std::vector<Record>& records) {
  auto list = nlohmann::json::array();
  for (const Record& record : records) {
    nlohmann::json json{{"host", record.host},
                        {"rank", record.rank},
                        {"verdict", static_cast<int>(record.verdict)},
                        {"unit", record.unit},
                        {"found", record.found},
                        {"advice", record.advice},
                        {"code", static_cast<int>(record.code)}};
    if (record.value) json["value"] = *record.value;
    list.push_back(std::move(json));
  }
  // A path need not be UTF-8.
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<Record> parse_records(const std::string& text) {
  try {
    std::vector<Record> records;
    for (const auto& json : nlohmann::json::parse(text)) {
      records.push_back({.host = json.at("host"),
                         .rank = json.at("rank"),
                         .verdict = static_cast<Verdict>(json.at("verdict").get<int>()),
                         .unit = json.at("unit"),
                         .found = json.at("found"),
                         .advice = json.at("advice"),
                         .code = static_cast<ExitCode>(json.at("code").get<int>())});
      if (json.contains("value")) records.back().value = json["value"].get<double>();
    }
    return records;
  } catch (const nlohmann::json::exception& error) {
    throw InternalError("a record of the preflight does not read: {}", error.what());
  }
}

double median_of(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string range_of(const std::vector<Record>& records) {
  std::vector<double> values;
  std::string unit;
  for (const Record& record : records) {
    if (!record.value) continue;
    values.push_back(*record.value);
    unit = record.unit;
  }
  if (values.empty()) return "";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (values.size() == 1) return fmt::format("{:.3g} {}", *low, unit);
  return fmt::format("{:.3g} … {:.3g} {}, median {:.3g}", *low, *high, unit, median_of(values));
}

}  // namespace shoal::preflight
