// New names for tensors, by a file of rules: one a line, "REGEX -> REPLACEMENT". The regular expression (ECMAScript's,
// as std::regex has it) must take the whole name; $1, $2, … in the replacement are its groups, $& the name. Empty lines
// and lines that begin with '#' say nothing.
#pragma once

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

namespace shoal::checkpoint {

class RenameRules {
 public:
  RenameRules() = default;
  // OptionError with FILE:LINE for what is no rule.
  static RenameRules read(const std::filesystem::path& file);

  bool empty() const { return rules_.empty(); }

  // The name itself where no rule takes it. OptionError that names the rules where two give it different names, or one
  // gives it an empty one, and for names of more than 5000 characters.
  std::string apply(const std::string& name) const;

 private:
  struct Rule {
    std::string where;  // FILE:LINE
    std::regex pattern;
    std::string replacement;
  };
  std::vector<Rule> rules_;
};

}  // namespace shoal::checkpoint
