#include "checkpoint/match_rules.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/glob.h"

namespace shoal::checkpoint {
namespace {

bool any_matches(const std::vector<std::string>& globs, std::string_view name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return glob_matches(glob, name); });
}

}  // namespace

MatchRules MatchRules::parse(std::vector<std::string> allow_missing, std::vector<std::string> allow_extra,
                             const std::vector<std::string>& renames) {
  return {std::move(allow_missing), std::move(allow_extra), RenameRules::parse(renames)};
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
