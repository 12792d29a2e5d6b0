#include "core/glob.h"

namespace shoal {

bool glob_matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    const bool crosses = pattern.starts_with("**");
    const std::string_view rest = pattern.substr(crosses ? 2 : 1);
    for (std::size_t i = 0; i <= name.size(); ++i) {
      if (glob_matches(rest, name.substr(i))) return true;
      if (!crosses && i < name.size() && name[i] == '.') return false;
    }
    return false;
  }
  if (name.empty() || (pattern[0] == '?' ? name[0] == '.' : pattern[0] != name[0])) return false;
  return glob_matches(pattern.substr(1), name.substr(1));
}

}  // namespace shoal
