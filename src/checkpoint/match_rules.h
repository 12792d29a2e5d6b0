// What may differ between the tensors of a file and those of the model: nothing, unless the user says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/rename_rules.h"

namespace shoal::checkpoint {

// All speak of parameters and buffers by their names ("h.0.weight"); what the optimizer keeps of one goes with it.
struct MatchRules {
  std::vector<std::string> allow_missing;  // globs; the file may lack them: they keep their values
  std::vector<std::string> allow_extra;    // globs, after renaming; the model may lack them
  RenameRules rename;                      // of names of the file

  // `renames`: what --rename was given. OptionError that names it.
  static MatchRules parse(std::vector<std::string> allow_missing, std::vector<std::string> allow_extra,
                          const std::vector<std::string>& renames);

  std::string renamed(std::string_view parameter) const { return rename.apply(parameter); }
  bool may_be_missing(std::string_view parameter) const;
  bool may_be_extra(std::string_view parameter) const;
};

// "7 WHAT: 'a', 'b', 'c', 'd', 'e', …"
std::string listed(const std::vector<std::string>& items, const char* what);

}  // namespace shoal::checkpoint
