#include "launch/run_records.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/check.h"
#include "core/file_io.h"
#include "core/logging.h"

namespace shoal::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<RunState, const char*>, 6> kStates{{{RunState::running, "running"},
                                                                   {RunState::finished, "finished"},
                                                                   {RunState::stopped, "stopped"},
                                                                   {RunState::failed, "failed"},
                                                                   {RunState::superseded, "superseded"},
                                                                   {RunState::no_progress, "no_progress"}}};

RunState parse_state(const std::string& text, const std::string& where) {
  for (const auto& [state, name] : kStates)
    if (text == name) return state;
  throw IoError("{}: '{}' is no state of a run", where, text);
}

Json parse(const std::string& text, const std::string& where) {
  Json json = Json::parse(text, nullptr, false);
  SHOAL_CHECK(json.is_object(), IoError, "{} is no JSON object", where);
  const auto version = json.find("version");
  const bool newer = version != json.end() && version->is_number() && version->get<double>() > kRecordVersion;
  SHOAL_CHECK(!newer, NewerVersionError,
              "{} was written by a newer version of Shoal (record version {}, this program knows {}): use that version",
              where, version->dump(), kRecordVersion);
  return json;
}

// Runs `body`; what the library of JSON says becomes an IoError that names the file.
template <typename Body>
auto reading(const std::string& where, const Body& body) {
  try {
    return body();
  } catch (const Json::exception& error) {
    throw IoError("{}: {}", where, error.what());
  }
}

template <typename T>
void put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}

template <typename T>
std::optional<T> take(const Json& json, const char* name) {
  if (!json.contains(name)) return std::nullopt;
  return json.at(name).get<T>();
}

std::string text_of(const Json& json) {
  // Reasons may quote what a user gave in any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

const char* text_of(RunState state) {
  for (const auto& [known, name] : kStates)
    if (known == state) return name;
  return "unknown";
}

RunState state_of_exit_code(int exit_code) {
  switch (static_cast<ExitCode>(exit_code)) {
    case ExitCode::ok: return RunState::finished;
    case ExitCode::stopped: return RunState::stopped;
    case ExitCode::superseded: return RunState::superseded;
    case ExitCode::no_progress: return RunState::no_progress;
    default: return RunState::failed;
  }
}

std::string format(const AttemptRecord& record) {
  Json json{{"version", kRecordVersion},
            {"attempt", record.attempt},
            {"job", record.job},
            {"chain", record.chain},
            {"restart_count", record.restart_count},
            {"host", record.host},
            {"process", record.process},
            {"ranks", record.ranks},
            {"started", record.started},
            {"state", text_of(record.state)}};
  put(json, "start_step", record.start_step);
  put(json, "end_step", record.end_step);
  put(json, "ended", record.ended);
  put(json, "exit_code", record.exit_code);
  json["reason"] = record.reason;
  json["requeued"] = record.requeued;
  put(json, "checkpoint_seconds", record.checkpoint_seconds);
  return text_of(json);
}

std::string format(const FailureRecord& record) {
  return text_of(Json{{"version", kRecordVersion},
                      {"attempt", record.attempt},
                      {"rank", record.rank},
                      {"host", record.host},
                      {"gpu", record.gpu},
                      {"time", record.time},
                      {"reason", record.reason},
                      {"exit_code", record.exit_code}});
}

std::string format(const RunStatus& status) {
  Json json{{"version", kRecordVersion},
            {"attempt", status.attempt},
            {"job", status.job},
            {"state", text_of(status.state)},
            {"phase", status.phase},
            {"step", status.step},
            {"total_steps", status.total_steps},
            {"epoch", status.epoch},
            {"loss", status.loss},
            {"samples_per_second", status.samples_per_second},
            {"seconds_per_step", status.seconds_per_step},
            {"last_checkpoint", status.last_checkpoint},
            {"last_checkpoint_step", status.last_checkpoint_step},
            {"last_checkpoint_time", status.last_checkpoint_time},
            {"host", status.host},
            {"ranks", status.ranks},
            {"updated", status.updated}};
  put(json, "deadline", status.deadline);
  return text_of(json);
}

AttemptRecord parse_attempt(const std::string& text, const std::string& where) {
  const Json json = parse(text, where);
  return reading(where, [&] {
    AttemptRecord record;
    record.attempt = json.at("attempt");
    record.job = json.at("job");
    record.chain = json.at("chain");
    record.restart_count = json.at("restart_count");
    record.host = json.at("host");
    record.process = json.at("process");
    record.ranks = json.at("ranks");
    record.started = json.at("started");
    record.state = parse_state(json.at("state"), where);
    record.start_step = take<std::int64_t>(json, "start_step");
    record.end_step = take<std::int64_t>(json, "end_step");
    record.ended = take<double>(json, "ended");
    record.exit_code = take<int>(json, "exit_code");
    record.reason = json.at("reason");
    record.requeued = json.at("requeued");
    record.checkpoint_seconds = take<double>(json, "checkpoint_seconds");
    return record;
  });
}

FailureRecord parse_failure(const std::string& text, const std::string& where) {
  const Json json = parse(text, where);
  return reading(where, [&] {
    return FailureRecord{.attempt = json.at("attempt"),
                         .rank = json.at("rank"),
                         .host = json.at("host"),
                         .gpu = json.at("gpu"),
                         .time = json.at("time"),
                         .reason = json.at("reason"),
                         .exit_code = json.at("exit_code")};
  });
}

RunStatus parse_status(const std::string& text, const std::string& where) {
  const Json json = parse(text, where);
  return reading(where, [&] {
    RunStatus status;
    status.attempt = json.at("attempt");
    status.job = json.at("job");
    status.state = parse_state(json.at("state"), where);
    status.phase = json.at("phase");
    status.step = json.at("step");
    status.total_steps = json.at("total_steps");
    status.epoch = json.at("epoch");
    status.loss = json.at("loss").is_null() ? 0 : json.at("loss").get<double>();  // JSON has no nan
    status.samples_per_second = json.at("samples_per_second");
    status.seconds_per_step = json.at("seconds_per_step");
    status.last_checkpoint = json.at("last_checkpoint");
    status.last_checkpoint_step = json.at("last_checkpoint_step");
    status.last_checkpoint_time = json.at("last_checkpoint_time");
    status.host = json.at("host");
    status.ranks = json.at("ranks");
    status.updated = json.at("updated");
    status.deadline = take<double>(json, "deadline");
    return status;
  });
}

std::vector<AttemptRecord> read_attempts(const RunDirectory& directory) {
  std::vector<AttemptRecord> records;
  for (const int number : directory.attempts()) {
    const std::filesystem::path path = directory.attempt(number);
    try {
      records.push_back(parse_attempt(read_text_file(path), path.string()));
    } catch (const Error& error) {
      log::warning("the record of an attempt is left out: {}", error.what());
    }
  }
  return records;
}

}  // namespace shoal::launch
