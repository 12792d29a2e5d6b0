// A completion for bash, out of what the verbs say of themselves.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

namespace shoal::apps {

// `verbs` may lack some of `names`, of which then only the name is completed.
std::string bash_completion(const std::set<std::string>& names, const std::vector<nlohmann::ordered_json>& verbs);

}  // namespace shoal::apps
