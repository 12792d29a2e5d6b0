#include "launch/variables.h"

#include <string_view>

namespace shoal::launch {

Variables read_environment(const char* const* environment) {
  Variables variables;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::size_t equals = entry.find('=');
    if (equals != entry.npos) variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

}  // namespace shoal::launch
