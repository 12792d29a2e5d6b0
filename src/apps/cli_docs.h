// docs/cli.md, out of what the verbs say of themselves.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shoal::apps {

std::string cli_docs(const std::vector<nlohmann::ordered_json>& verbs);

}  // namespace shoal::apps
