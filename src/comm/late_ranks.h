// What a time-out is where the group knows who did not come.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace shoal::comm {

class LateRanksError : public CommunicationError {
 public:
  LateRanksError(const std::string& message, std::vector<int> ranks)
      : CommunicationError("{}", message), ranks_(std::move(ranks)) {}
  const std::vector<int>& ranks() const noexcept { return ranks_; }  // ascending

 private:
  std::vector<int> ranks_;
};

}  // namespace shoal::comm
