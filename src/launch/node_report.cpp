#include "launch/node_report.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/file_io.h"

namespace shoal::launch {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::array<const char*, 4> kStates{"runs", "stopped", "ended", "unheard"};

json to_json(const Whereabouts& w) {
  return {{"rank", w.rank},
          {"host", w.host},
          {"process", w.at.process},
          {"state", kStates[static_cast<std::size_t>(w.state)]},
          {"operation", activity::text_of(w.at.operation)},
          {"unit", w.at.unit},
          {"unit_name", w.at.unit_name},
          {"step", w.at.step},
          {"micro_step", w.at.micro_step},
          {"unchanged_seconds", w.at.unchanged_seconds}};
}

template <typename Enum, typename Names>
Enum parse_name(const std::string& text, std::size_t count, const Names& name_of) {
  for (std::size_t i = 0; i < count; ++i)
    if (text == name_of(i)) return static_cast<Enum>(i);
  throw IoError("'{}' is nothing that a rank does", text);
}

Whereabouts parse(const json& from) {
  Whereabouts w;
  w.rank = w.at.rank = from.at("rank");
  w.host = from.at("host");
  w.at.process = from.at("process");
  w.state = parse_name<Whereabouts::State>(from.at("state"), kStates.size(), [](std::size_t i) { return kStates[i]; });
  w.at.operation = parse_name<activity::Operation>(from.at("operation"), activity::kOperations, [](std::size_t i) {
    return activity::text_of(static_cast<activity::Operation>(i));
  });
  w.at.unit = from.at("unit");
  w.at.unit_name = from.at("unit_name");
  w.at.step = from.at("step");
  w.at.micro_step = from.at("micro_step");
  w.at.unchanged_seconds = from.at("unchanged_seconds");
  return w;
}

}  // namespace

std::string to_json(const NodeReport& report) {
  json ranks = json::array();
  for (const Whereabouts& w : report.ranks) ranks.push_back(to_json(w));
  const json all{{"time", report.time}, {"struck", report.struck}, {"ranks", std::move(ranks)}};
  // A name of another encoding must not keep a report from being written.
  return all.dump(1, ' ', false, json::error_handler_t::replace) + '\n';
}

NodeReport parse_node_report(const std::string& text) {
  try {
    const json all = json::parse(text);
    NodeReport report{.time = all.at("time"), .struck = all.at("struck")};
    for (const json& rank : all.at("ranks")) report.ranks.push_back(parse(rank));
    return report;
  } catch (const json::exception& error) {
    throw IoError("no report of a node: {}", error.what());
  }
}

fs::path node_report_file(const fs::path& where, int node, int attempt) {
  return where / fmt::format("node-of-rank-{:04}.attempt-{:06}.json", node, attempt);
}

std::optional<std::string> last_seen(const fs::path& where, int attempt) {
  std::vector<Whereabouts> all;
  double latest = 0;
  std::error_code error;
  const std::string suffix = fmt::format(".attempt-{:06}.json", attempt);
  for (fs::directory_iterator file(where, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (!name.starts_with("node-of-rank-") || !name.ends_with(suffix)) continue;
    try {
      const NodeReport report = parse_node_report(read_text_file(file->path()));
      all.insert(all.end(), report.ranks.begin(), report.ranks.end());
      latest = std::max(latest, report.time);
    } catch (const Error&) {
      continue;  // killed while it was written
    }
  }
  if (all.empty()) return std::nullopt;
  const std::chrono::sys_seconds when{std::chrono::seconds(static_cast<std::int64_t>(latest))};
  return fmt::format("last seen at {:%Y-%m-%d %H:%M:%S} UTC: {}", fmt::gmtime(when), describe(std::move(all)));
}

void forget_reports_before(const fs::path& where, int attempt) noexcept {
  constexpr std::string_view kMark = ".attempt-";
  std::error_code error, none;
  for (fs::directory_iterator file(where, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename().string();
    const std::size_t mark = name.find(kMark);
    if (mark == std::string::npos) continue;
    const char* const digits = name.data() + mark + kMark.size();
    int number = 0;
    if (std::from_chars(digits, name.data() + name.size(), number).ec == std::errc() && number < attempt)
      fs::remove(file->path(), none);
  }
}

}  // namespace shoal::launch
