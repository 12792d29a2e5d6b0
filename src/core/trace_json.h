// A trace as the Trace Event Format, which chrome://tracing and https://ui.perfetto.dev show
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
#pragma once

#include <string>
#include <vector>

#include "core/trace.h"

namespace shoal {

// Events of one rank, JSON objects with commas between them: a process named `process` with number `rank`, a named row
// for each lane that is used (a second one where spans of a lane overlap without nesting, which viewers cannot show),
// and a complete event (ph "X") a span. `shift`: microseconds to add to this rank's clock.
std::string trace_events(const std::vector<Trace::Span>& spans, int rank, const std::string& process, double shift);

// A whole file, of the events of any number of ranks.
std::string trace_document(const std::vector<std::string>& events_of_ranks);

}  // namespace shoal
