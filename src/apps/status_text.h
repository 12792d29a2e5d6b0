// A run as people and as programs read it.
#pragma once

#include <string>

#include "launch/run_overview.h"

namespace shoal::apps {

// `now`: UNIX time.
std::string status_text(const launch::RunOverview& run, double now);
std::string status_json(const launch::RunOverview& run);

}  // namespace shoal::apps
