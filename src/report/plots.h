// The plots of a report, of one run or of several beside each other.
#pragma once

#include <vector>

#include "report/plot.h"
#include "report/run.h"

namespace shoal::report {

// Those that there are numbers for: loss, rate, MFU, memory, where the time of a step goes, checkpoints, gradient norm,
// learning rate.
std::vector<Plot> plots_of(const std::vector<Run>& runs);

}  // namespace shoal::report
