#include "checkpoint/match_rules.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "core/glob.h"

namespace shoal::checkpoint {
namespace {

bool any_matches(const std::vector<std::string>& globs, std::string_view name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return glob_matches(glob, name); });
}

struct Star {
  std::size_t at, length;  // length 0: there is none
};

Star star_of(const std::string& glob) {
  const std::size_t at = glob.find('*');
  if (at == glob.npos) return {glob.size(), 0};
  return {at, glob.compare(at, 2, "**") == 0 ? std::size_t{2} : 1};
}

bool is_one_rule(const std::string& old, const std::string& now) {
  const auto stars = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
  if (old.empty() || now.empty() || now.find('=') != now.npos || old.find('?') != old.npos) return false;
  const auto length = static_cast<std::ptrdiff_t>(star_of(old).length);
  return star_of(now).length == star_of(old).length && stars(old) == length && stars(now) == length;
}

}  // namespace

MatchRules MatchRules::parse(std::vector<std::string> allow_missing, std::vector<std::string> allow_extra,
                             const std::vector<std::string>& renames) {
  MatchRules rules{std::move(allow_missing), std::move(allow_extra), {}};
  for (const std::string& rename : renames) {
    const std::size_t sign = rename.find('=');
    const std::string old = rename.substr(0, sign), now = sign == rename.npos ? "" : rename.substr(sign + 1);
    SHOAL_CHECK(is_one_rule(old, now), OptionError,
                "--rename takes OLD=NEW, with one '*' or '**' in both or none in either, not '{}'", rename);
    rules.renames.emplace_back(old, now);
  }
  return rules;
}

std::string MatchRules::renamed(std::string_view parameter) const {
  for (const auto& [old, now] : renames) {
    if (!glob_matches(old, parameter)) continue;
    const Star from = star_of(old), to = star_of(now);
    std::string name = now;
    return name.replace(to.at, to.length, parameter.substr(from.at, parameter.size() + from.length - old.size()));
  }
  return std::string(parameter);
}

bool MatchRules::may_be_missing(std::string_view parameter) const { return any_matches(allow_missing, parameter); }

bool MatchRules::may_be_extra(std::string_view parameter) const { return any_matches(allow_extra, parameter); }

std::string listed(const std::vector<std::string>& items, const char* what) {
  constexpr std::size_t kShown = 5;
  const auto end = items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), kShown));
  const char* more = items.size() > kShown ? ", …" : "";
  return fmt::format("{} {}: {}{}", items.size(), what, fmt::join(items.begin(), end, ", "), more);
}

}  // namespace shoal::checkpoint
