// What may differ between the tensors of a file and those of the model: nothing, unless the user says so.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal::checkpoint {

// All speak of parameters and buffers by their names ("h.0.weight"); what the optimizer keeps of one goes with it.
struct MatchRules {
  std::vector<std::string> allow_missing;                    // globs; the file may lack them: they keep their values
  std::vector<std::string> allow_extra;                      // globs, after renaming; the model may lack them
  std::vector<std::pair<std::string, std::string>> renames;  // {OLD, NEW}, from names of the file; the first one counts

  // `renames`: "OLD=NEW"; one '*' or "**" in OLD stands for the same in NEW. OptionError that names --rename.
  static MatchRules parse(std::vector<std::string> allow_missing, std::vector<std::string> allow_extra,
                          const std::vector<std::string>& renames);

  std::string renamed(std::string_view parameter) const;
  bool may_be_missing(std::string_view parameter) const;
  bool may_be_extra(std::string_view parameter) const;
};

// "7 WHAT: 'a', 'b', 'c', 'd', 'e', …"
std::string listed(const std::vector<std::string>& items, const char* what);

}  // namespace shoal::checkpoint
