// Who wants to know when collectives began and ended: the trace of a run.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::comm {

// One collective of one group on this rank, when it is over.
struct CollectiveRecord {
  std::string group;          // the group's name: "shard"
  std::string collective;     // "all_gather"
  std::string activity;       // the group's activity when the collective was called
  std::int64_t bytes = 0;     // of the larger of this rank's two buffers
  double start = 0, end = 0;  // microseconds of the observer's clock
};

class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;
  // Microseconds by the host's steady clock, from a moment that the observer chooses.
  virtual double now() const = 0;
  // Called on the thread that calls the group, some time after the collective's end.
  virtual void collective(const CollectiveRecord& record) = 0;
};

}  // namespace shoal::comm
