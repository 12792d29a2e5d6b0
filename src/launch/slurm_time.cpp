#include "launch/slurm_time.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>

#include "core/check.h"

namespace shoal::launch {
namespace {

constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

bool means_unlimited(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower == "unlimited" || lower == "infinite" || lower == "-1";
}

// Removes the number at the front; nothing where there is none, or one of more than nine digits.
std::optional<std::int64_t> take_number(std::string_view& text) {
  constexpr std::ptrdiff_t kMostDigits = 9;
  std::int64_t number = 0;
  const char* const begin = text.data();
  if (text.empty() || *begin == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(begin, begin + text.size(), number);
  if (error != std::errc() || end - begin > kMostDigits) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - begin));
  return number;
}

struct Fields {
  std::array<std::int64_t, 3> value{};
  std::size_t count = 0;
};

// "a", "a:b" or "a:b:c".
std::optional<Fields> take_fields(std::string_view text) {
  Fields fields;
  while (fields.count < fields.value.size()) {
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    fields.value[fields.count++] = *number;
    if (text.empty()) return fields;
    if (text.front() != ':') return std::nullopt;
    text.remove_prefix(1);
  }
  return std::nullopt;
}

// Without days a single number is minutes, and two are minutes and seconds; with days they are hours, and minutes.
std::optional<std::int64_t> seconds_in(std::string_view text) {
  std::int64_t days = 0;
  const bool has_days = text.find('-') != std::string_view::npos;
  if (has_days) {
    const auto number = take_number(text);
    if (!number || text.empty() || text.front() != '-') return std::nullopt;
    text.remove_prefix(1);
    days = *number;
  }
  const auto fields = take_fields(text);
  if (!fields) return std::nullopt;
  const auto [a, b, c] = fields->value;
  if (has_days || fields->count == 3) return days * kDay + a * kHour + b * kMinute + c;
  return a * kMinute + b;
}

}  // namespace

std::optional<std::int64_t> parse_slurm_time(std::string_view text) {
  if (means_unlimited(text)) return std::nullopt;
  const auto seconds = seconds_in(text);
  SHOAL_CHECK(seconds, OptionError,
              "'{}' is no time as Slurm writes it: give minutes, minutes:seconds, hours:minutes:seconds, days-hours, "
              "days-hours:minutes or days-hours:minutes:seconds",
              text);
  return seconds;
}

}  // namespace shoal::launch
