// How much of a step was computation, how much communication, and how much of this nothing hid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace.h"

namespace shoal {

// Microseconds. Spans of one kind that overlap count once.
struct StepTimes {
  std::int64_t step = 0;
  double length = 0;       // from the first start to the last end of what follows
  double compute = 0;      // some unit was computed, or the optimizer stepped
  double optimizer = 0;    // of that, while no unit was computed
  double collectives = 0;  // some collective was under way
  double exposed = 0;      // of that, while nothing was computed
};

// One entry a step that has spans of these kinds, in the order of steps.
std::vector<StepTimes> step_times(const std::vector<Trace::Span>& spans);

// "exposed communication 1.2 ms of a step's 41.0 ms (2.9 %): compute 38.1 ms, collectives 20.4 ms; means of 20 steps".
std::string text_of(const std::vector<StepTimes>& steps);

}  // namespace shoal
