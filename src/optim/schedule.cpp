#include "optim/schedule.h"

#include <charconv>
#include <cmath>
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

}  // namespace

Schedule Schedule::parse(const std::string& text) {
  Schedule schedule;
  schedule.text_ = text;
  if (text == "constant") return schedule;
  constexpr std::string_view kStep = "step:";
  const std::size_t colon = text.find(':', kStep.size());
  SHOAL_CHECK(text.starts_with(kStep) && colon != std::string::npos, OptionError,
              "--schedule takes constant or step:SIZE:GAMMA, not '{}'", text);
  const std::string_view view(text);
  const auto size = parse_number<std::int64_t>(view.substr(kStep.size(), colon - kStep.size()));
  const auto gamma = parse_number<double>(view.substr(colon + 1));
  SHOAL_CHECK(size && *size >= 1, OptionError, "--schedule {}: SIZE must be a whole number of epochs >= 1", text);
  SHOAL_CHECK(gamma && std::isfinite(*gamma) && *gamma > 0, OptionError, "--schedule {}: GAMMA must be a number > 0",
              text);
  schedule.size_ = *size;
  schedule.gamma_ = *gamma;
  return schedule;
}

double Schedule::learning_rate(double base, std::int64_t epoch) const {
  if (size_ == 0) return base;
  double rate = base;
  for (std::int64_t decays = epoch / size_; decays > 0 && rate != 0; --decays) rate *= gamma_;
  return rate;
}

}  // namespace shoal::optim
