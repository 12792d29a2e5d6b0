#include "optim/schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

#include "core/check.h"

namespace shoal::optim {
namespace {

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double decayed(double rate, double gamma, std::int64_t times) {
  for (; times > 0 && rate != 0; --times) rate *= gamma;
  return rate;
}

// 1 in the first step after the warm-up, 0 in the one that would follow the last.
double part_left(const ScheduleTime& at) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(at.total_steps - at.warmup_steps, 1));
  return std::clamp(static_cast<double>(at.total_steps - at.step) / steps, 0.0, 1.0);
}

}  // namespace

Schedule Schedule::parse(const std::string& text) {
  Schedule schedule;
  schedule.text_ = text;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string kind = text.substr(0, colon), rest = text.substr(colon);
  if (kind == "step") {
    schedule.kind_ = Kind::step;
    schedule.parse_step(rest);
  } else if (kind == "cosine" || kind == "linear") {
    schedule.kind_ = kind == "cosine" ? Kind::cosine : Kind::linear;
    schedule.parse_least(rest);
  } else {
    SHOAL_CHECK(text == "constant", OptionError,
                "--schedule takes constant, step:SIZE:GAMMA, cosine[:MIN_RATIO] or linear[:MIN_RATIO], not '{}'", text);
  }
  return schedule;
}

// ":SIZE:GAMMA"
void Schedule::parse_step(const std::string& rest) {
  const std::size_t colon = rest.find(':', 1);
  SHOAL_CHECK(colon != std::string::npos, OptionError, "--schedule {}: the form is step:SIZE:GAMMA", text_);
  const std::string_view view(rest);
  const auto size = parse_number<std::int64_t>(view.substr(1, colon - 1));
  const auto gamma = parse_number<double>(view.substr(colon + 1));
  SHOAL_CHECK(size && *size >= 1, OptionError, "--schedule {}: SIZE must be a whole number of epochs >= 1", text_);
  SHOAL_CHECK(gamma && std::isfinite(*gamma) && *gamma > 0, OptionError, "--schedule {}: GAMMA must be a number > 0",
              text_);
  size_ = *size;
  gamma_ = *gamma;
}

// ":MIN_RATIO" or nothing
void Schedule::parse_least(const std::string& rest) {
  if (rest.empty()) return;
  const auto least = parse_number<double>(std::string_view(rest).substr(1));
  SHOAL_CHECK(least && *least >= 0 && *least <= 1, OptionError,
              "--schedule {}: MIN_RATIO, the last rate as a part of --lr, must be a number from 0 to 1", text_);
  least_ = *least;
}

void Schedule::warm_up_by(const std::string& type, double least) {
  SHOAL_CHECK(type == "linear" || type == "log", OptionError, "--warmup-type takes linear or log, not '{}'", type);
  SHOAL_CHECK(least >= 0 && least <= 1, OptionError,
              "--warmup-min-ratio, the first rate as a part of --lr, must be a number from 0 to 1, not {}", least);
  warms_up_by_log_ = type == "log";
  warmup_least_ = least;
}

// The logarithm of a warm-up of one step has no slope.
double Schedule::warmed_up(const ScheduleTime& at) const {
  const auto done = static_cast<double>(at.step + 1), steps = static_cast<double>(at.warmup_steps);
  const double part = warms_up_by_log_ && at.warmup_steps > 1 ? std::log(done) / std::log(steps) : done / steps;
  return warmup_least_ > 0 ? warmup_least_ + (1 - warmup_least_) * part : part;
}

double Schedule::learning_rate(double base, const ScheduleTime& at) const {
  SHOAL_CHECK(at.warmup_steps <= at.total_steps, OptionError,
              "--warmup {} is longer than the run, which has {} steps: give a shorter one", at.warmup_steps,
              at.total_steps);
  if (at.step < at.warmup_steps) return base * warmed_up(at);
  switch (kind_) {
    case Kind::constant: return base;
    case Kind::step: return decayed(base, gamma_, at.epoch / size_);
    case Kind::cosine: return base * (least_ + (1 - least_) * (1 - std::cos(std::numbers::pi * part_left(at))) / 2);
    case Kind::linear: return base * (least_ + (1 - least_) * part_left(at));
  }
  return base;
}

}  // namespace shoal::optim
