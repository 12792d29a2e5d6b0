// Which of a model's tensors a conversion takes (--select), and what they are called on the other side (--rename).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/rename_rules.h"

namespace shoal::checkpoint {

// Neither argument may die before it.
class ChosenNames {
 public:
  // `select`: globs on names before they are renamed; empty: all.
  ChosenNames(const std::vector<std::string>& select, const RenameRules& rename)
      : select_(&select), rename_(&rename), used_(select.size(), false) {}

  bool wants(const std::string& name);
  // OptionError where another name has become the same.
  std::string renamed(const std::string& name);
  // OptionError where a glob took nothing.
  void check_used() const;

 private:
  const std::vector<std::string>* select_;
  const RenameRules* rename_;
  std::vector<bool> used_;
  std::map<std::string, std::string> taken_;  // new name → old one
};

}  // namespace shoal::checkpoint
