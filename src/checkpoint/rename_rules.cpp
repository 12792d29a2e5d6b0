#include "checkpoint/rename_rules.h"

#include <sstream>

#include "core/check.h"
#include "core/file_io.h"

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

}  // namespace

RenameRules RenameRules::read(const std::filesystem::path& file) {
  RenameRules rules;
  std::istringstream text(read_text_file(file));
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    const std::string where = fmt::format("{}:{}", file.string(), number);
    const std::size_t arrow = line.find(kArrow);
    SHOAL_CHECK(arrow != std::string::npos, OptionError, "{}: '{}' is no rule; a rule is 'REGEX -> REPLACEMENT'", where,
                line);
    const std::string pattern = trimmed(line.substr(0, arrow));
    rules.rules_.push_back({where, regex_of(pattern, where), trimmed(line.substr(arrow + kArrow.size()))});
  }
  return rules;
}

std::string RenameRules::apply(const std::string& name) const {
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
