// A report as one file of HTML that needs nothing else: no network, no other file.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace shoal::report {

std::string page(const std::vector<Run>& runs);

}  // namespace shoal::report
