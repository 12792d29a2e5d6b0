// How backends on the CPU report their collectives.
#pragma once

#include <memory>

#include "comm/process_group.h"

namespace shoal::comm {

// Made when a collective is called; its Work then reports to the group's observer when it has been waited for.
//   const ObservedCall call(*this, "all_gather", bytes);
//   return call.around(start_the_messages());
class ObservedCall {
 public:
  ObservedCall(const ProcessGroup& group, const char* collective, std::int64_t bytes);
  std::unique_ptr<Work> around(std::unique_ptr<Work> work) const;  // itself where nobody observes

 private:
  std::shared_ptr<CollectiveObserver> observer_;
  CollectiveRecord record_;
};

}  // namespace shoal::comm
