#include "checkpoint/rename_rules.h"

#include <algorithm>
#include <sstream>
#include <system_error>

#include "core/check.h"
#include "core/file_io.h"
#include "core/glob.h"

namespace shoal::checkpoint {
namespace {

constexpr std::string_view kArrow = " -> ";
constexpr std::string_view kBlanks = " \t\r";

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::regex regex_of(const std::string& pattern, const std::string& where) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw OptionError("{}: '{}' is no regular expression: {}", where, pattern, error.what());
  }
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

RenameRules RenameRules::parse(const std::vector<std::string>& given) {
  RenameRules rules;
  for (const std::string& text : given) {
    std::error_code unknown;
    if (std::filesystem::is_regular_file(text, unknown)) {
      rules.read(text);
      continue;
    }
    const std::size_t sign = text.find('=');
    SHOAL_CHECK(sign != text.npos, OptionError, "--rename '{}' is neither OLD=NEW nor a file of rules that is there",
                text);
    const std::string old = text.substr(0, sign), now = text.substr(sign + 1);
    SHOAL_CHECK(is_one_rule(old, now), OptionError,
                "--rename takes OLD=NEW, with one '*' or '**' in both or none in either, or a file of rules, not '{}'",
                text);
    rules.globs_.emplace_back(old, now);
  }
  return rules;
}

void RenameRules::read(const std::filesystem::path& file) {
  std::istringstream text(read_text_file(file));
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    const std::string where = fmt::format("{}:{}", file.string(), number);
    const std::size_t arrow = line.find(kArrow);
    SHOAL_CHECK(arrow != std::string::npos, OptionError,
                "--rename: {}: '{}' is no rule; a rule is 'REGEX -> REPLACEMENT'", where, line);
    const std::string pattern = trimmed(line.substr(0, arrow));
    rules_.push_back({where, regex_of(pattern, where), trimmed(line.substr(arrow + kArrow.size()))});
  }
}

std::string RenameRules::apply(std::string_view name) const {
  for (const auto& [old, now] : globs_) {
    if (!glob_matches(old, name)) continue;
    const Star from = star_of(old), to = star_of(now);
    std::string renamed = now;
    return renamed.replace(to.at, to.length, name.substr(from.at, name.size() + from.length - old.size()));
  }
  return apply_files(std::string(name));
}

std::string RenameRules::apply_files(const std::string& name) const {
  constexpr std::size_t kLongest = 5000;  // std::regex takes stack for each character
  SHOAL_CHECK(rules_.empty() || name.size() <= kLongest, OptionError,
              "--rename: the name '{}…' of {} characters is too long for rules", name.substr(0, 80), name.size());
  const Rule* applied = nullptr;
  std::string renamed = name;
  for (const Rule& rule : rules_) {
    std::smatch match;
    if (!std::regex_match(name, match, rule.pattern)) continue;
    const std::string result = match.format(rule.replacement);
    SHOAL_CHECK(!result.empty(), OptionError, "{}: leaves nothing of the name '{}'", rule.where, name);
    SHOAL_CHECK(applied == nullptr || result == renamed, OptionError,
                "{} makes '{}' of '{}', {} makes '{}' of it: make one of them narrower", applied->where, renamed, name,
                rule.where, result);
    applied = &rule;
    renamed = result;
  }
  return renamed;
}

}  // namespace shoal::checkpoint
