#include "launch/metrics.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/check.h"

namespace shoal::launch {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
void put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}

template <typename T>
std::optional<T> take(const Json& json, const char* name) {
  if (!json.contains(name) || json.at(name).is_null()) return std::nullopt;
  return json.at(name).get<T>();
}

// JSON knows neither NaN nor infinity: they are written as null.
double number(const Json& json, const char* name) {
  const Json& value = json.at(name);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json json_of(const MetricsStart& start) {
  return {{"type", "start"},
          {"version", kMetricsVersion},
          {"attempt", start.attempt},
          {"time", start.time},
          {"model", start.model},
          {"strategy", start.strategy},
          {"device", start.device},
          {"ranks", start.ranks},
          {"from_step", start.from_step},
          {"total_steps", start.total_steps}};
}

Json json_of(const StepSplit& split) {
  return {{"step", split.step},          {"step_ms", split.step_ms},        {"compute_ms", split.compute},
          {"exposed_ms", split.exposed}, {"optimizer_ms", split.optimizer}, {"data_ms", split.data},
          {"host_ms", split.host}};
}

Json json_of(const StepMetrics& m) {
  Json json{{"type", "step"},
            {"attempt", m.attempt},
            {"time", m.time},
            {"step", m.step},
            {"epoch", m.epoch},
            {"loss", m.loss},
            {"learning_rate", m.learning_rate}};
  put(json, "grad_norm", m.grad_norm);
  json["ranks"] = m.ranks;
  json["samples_per_second"] = m.samples_per_second;
  json["samples_per_second_per_rank"] = m.samples_per_second / m.ranks;
  if (m.tokens_per_second) {
    json["tokens_per_second"] = *m.tokens_per_second;
    json["tokens_per_second_per_rank"] = *m.tokens_per_second / m.ranks;
  }
  put(json, "mfu", m.mfu);
  json["step_ms"] = m.step_ms;
  if (m.split) json["split"] = json_of(*m.split);
  put(json, "allocated_bytes", m.allocated);
  put(json, "reserved_bytes", m.reserved);
  json["peak_bytes"] = m.peak;
  put(json, "seconds_left", m.seconds_left);
  return json;
}

Json json_of(const CheckpointMetrics& m) {
  return {{"type", "checkpoint"}, {"attempt", m.attempt}, {"time", m.time},
          {"step", m.step},       {"bytes", m.bytes},     {"seconds", m.seconds}};
}

Json json_of(const ValidationMetrics& m) {
  return {{"type", "validation"}, {"attempt", m.attempt}, {"time", m.time},
          {"step", m.step},       {"loss", m.loss},       {"accuracy", m.accuracy}};
}

MetricsStart start_of(const Json& json, const std::string& where) {
  const int version = json.at("version").get<int>();
  SHOAL_CHECK(
      version <= kMetricsVersion, IoError,
      "{} was written by a newer version of Shoal (metrics version {}, this program knows {}): use that version", where,
      version, kMetricsVersion);
  return {json.at("attempt"), json.at("time"),  json.at("model"),     json.at("strategy"),
          json.at("device"),  json.at("ranks"), json.at("from_step"), json.at("total_steps")};
}

StepSplit split_of(const Json& json) {
  return {json.at("step"),
          number(json, "step_ms"),
          number(json, "compute_ms"),
          number(json, "exposed_ms"),
          number(json, "optimizer_ms"),
          number(json, "data_ms"),
          number(json, "host_ms")};
}

StepMetrics step_of(const Json& json) {
  StepMetrics m{.attempt = json.at("attempt"),
                .time = json.at("time"),
                .step = json.at("step"),
                .epoch = json.at("epoch"),
                .loss = number(json, "loss"),
                .learning_rate = number(json, "learning_rate"),
                .grad_norm = take<double>(json, "grad_norm"),
                .ranks = json.at("ranks"),
                .samples_per_second = number(json, "samples_per_second"),
                .tokens_per_second = take<double>(json, "tokens_per_second"),
                .mfu = take<double>(json, "mfu"),
                .step_ms = number(json, "step_ms")};
  if (json.contains("split")) m.split = split_of(json.at("split"));
  m.allocated = take<std::int64_t>(json, "allocated_bytes");
  m.reserved = take<std::int64_t>(json, "reserved_bytes");
  m.peak = json.at("peak_bytes");
  m.seconds_left = take<double>(json, "seconds_left");
  return m;
}

std::optional<MetricsLine> line_of(const Json& json, const std::string& where) {
  const std::string type = json.at("type");
  if (type == "start") return start_of(json, where);
  if (type == "step") return step_of(json);
  if (type == "checkpoint")
    return CheckpointMetrics{json.at("attempt"), json.at("time"), json.at("step"), json.at("bytes"),
                             number(json, "seconds")};
  if (type == "validation")
    return ValidationMetrics{json.at("attempt"), json.at("time"), json.at("step"), number(json, "loss"),
                             number(json, "accuracy")};
  return std::nullopt;
}

}  // namespace

std::string format(const MetricsLine& line) {
  const Json json = std::visit([](const auto& value) { return json_of(value); }, line);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<MetricsLine> parse_metrics(const std::string& line, const std::string& where) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return line_of(json, where);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace shoal::launch
