// The clocks of the nodes against each other.
#pragma once

#include <string>
#include <vector>

#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

struct ClockReading {
  int rank = 0;  // the first of its node
  std::string host;
  bool answered = false;
  double offset_s = 0;       // its clock minus rank 0's
  double uncertainty_s = 0;  // half of the round trip in which it was read
};

// Collective over the job. The time of the system (CLOCK_REALTIME) on each node, read by a message of rank 0's and
// taken to be that of the middle of the round trip; of ten trips the shortest counts.
std::vector<ClockReading> read_clocks(Context& context);

// A node more than a second away from the median of all is a warning: file times and logs of the job will not agree.
CheckResult judge_clocks(const std::vector<ClockReading>& readings);

}  // namespace shoal::preflight
