#include "core/trace_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace shoal {
namespace {

using Json = nlohmann::json;

// Names may hold any bytes that a user chose; those that are no UTF-8 are replaced.
std::string text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Rows of a lane in the picture. A row takes spans in the order of their starts, as long as each follows those before
// it or lies within one.
class Rows {
 public:
  int row_for(double start, double end) {
    for (std::size_t row = 0;; ++row) {
      if (row == open_.size()) open_.emplace_back();
      std::vector<double>& ends = open_[row];
      while (!ends.empty() && ends.back() <= start) ends.pop_back();
      if (!ends.empty() && ends.back() < end) continue;
      ends.push_back(end);
      return static_cast<int>(row);
    }
  }
  int count() const { return static_cast<int>(open_.size()); }

 private:
  std::vector<std::vector<double>> open_;  // the ends of the spans around the present one, innermost last
};

constexpr int kRowsALane = 100;  // numbers set aside

int number_of(Trace::Lane lane, int row) { return static_cast<int>(lane) * kRowsALane + std::min(row, kRowsALane - 1); }

Json metadata(const char* what, int rank, int row, Json arguments) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", std::move(arguments)}};
}

Json complete_event(const Trace::Span& span, int rank, int row, double shift) {
  Json arguments{{"step", span.step}};
  if (span.bytes > 0) arguments["bytes"] = span.bytes;
  return {{"ph", "X"},  {"name", span.name},        {"cat", name_of(span.lane)},    {"pid", rank},
          {"tid", row}, {"ts", span.start + shift}, {"dur", span.end - span.start}, {"args", std::move(arguments)}};
}

}  // namespace

std::string trace_events(const std::vector<Trace::Span>& spans, int rank, const std::string& process, double shift) {
  std::vector<Trace::Span> ordered = spans;  // what lies within another follows it
  std::stable_sort(ordered.begin(), ordered.end(), [](const Trace::Span& a, const Trace::Span& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<std::string> events{text(metadata("process_name", rank, 0, {{"name", process}})),
                                  text(metadata("process_sort_index", rank, 0, {{"sort_index", rank}}))};
  std::map<Trace::Lane, Rows> lanes;
  for (const Trace::Span& span : ordered) {
    const int row = number_of(span.lane, lanes[span.lane].row_for(span.start, span.end));
    events.push_back(text(complete_event(span, rank, row, shift)));
  }
  for (const auto& [lane, rows] : lanes)
    for (int row = 0; row < std::min(rows.count(), kRowsALane); ++row) {
      const std::string name = row == 0 ? std::string(name_of(lane)) : fmt::format("{} {}", name_of(lane), row + 1);
      const int number = number_of(lane, row);
      events.push_back(text(metadata("thread_name", rank, number, {{"name", name}})));
      events.push_back(text(metadata("thread_sort_index", rank, number, {{"sort_index", number}})));
    }
  return fmt::format("{}", fmt::join(events, ",\n"));
}

std::string trace_document(const std::vector<std::string>& events_of_ranks) {
  std::vector<std::string_view> parts;
  for (const std::string& events : events_of_ranks)
    if (!events.empty()) parts.emplace_back(events);
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", fmt::join(parts, ",\n"));
}

}  // namespace shoal
