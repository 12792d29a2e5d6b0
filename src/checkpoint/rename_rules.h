// New names for parameters, as --rename gives them everywhere. Each time it is given it is
//   OLD=NEW   one '*' or "**" in OLD stands for the same in NEW; of several that fit, the first one counts
// or a file of rules, one a line, "REGEX -> REPLACEMENT". The regular expression (ECMAScript's, as std::regex has it)
// must take the whole name; $1, $2, … in the replacement are its groups, $& the name. Empty lines and lines that begin
// with
// '#' say nothing. A name that an OLD=NEW takes is not looked up in files.
#pragma once

#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal::checkpoint {

class RenameRules {
 public:
  RenameRules() = default;
  // OptionError that names --rename for what is neither, with FILE:LINE for what is no rule.
  static RenameRules parse(const std::vector<std::string>& given);

  bool empty() const { return globs_.empty() && rules_.empty(); }

  // The name itself where no rule takes it. OptionError that names the rules where two of files give it different
  // names, or one gives it an empty one, and for names of more than 5000 characters where there are rules of files.
  std::string apply(std::string_view name) const;

 private:
  struct Rule {
    std::string where;  // FILE:LINE
    std::regex pattern;
    std::string replacement;
  };
  void read(const std::filesystem::path& file);
  std::string apply_files(const std::string& name) const;

  std::vector<std::pair<std::string, std::string>> globs_;  // {OLD, NEW}
  std::vector<Rule> rules_;
};

}  // namespace shoal::checkpoint
