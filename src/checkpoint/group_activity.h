// What a time-out of a group calls the thing in which a rank is missing, for as long as the object lives.
#pragma once

#include <string>
#include <utility>

#include "comm/process_group.h"

namespace shoal::checkpoint {

class GroupActivity {
 public:
  GroupActivity(comm::ProcessGroup& group, std::string activity) : group_(group), before_(group.activity()) {
    group.set_activity(std::move(activity));
  }
  ~GroupActivity() { group_.set_activity(std::move(before_)); }
  GroupActivity(const GroupActivity&) = delete;
  GroupActivity& operator=(const GroupActivity&) = delete;

 private:
  comm::ProcessGroup& group_;
  std::string before_;
};

}  // namespace shoal::checkpoint
