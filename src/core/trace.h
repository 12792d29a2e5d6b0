// What happened when on this rank, as chrome://tracing and Perfetto show it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace shoal {

class Trace {
 public:
  // One row of the picture each.
  enum class Lane { host, compute, all_gather, reduce, all_reduce, copy, optimizer };

  // Microseconds since this object was made, by the host's steady clock.
  double now() const;
  // Something that took from `start` to `end`, both of this clock. Any thread.
  void add(Lane lane, std::string name, double start, double end, std::int64_t bytes = 0);
};

}  // namespace shoal
