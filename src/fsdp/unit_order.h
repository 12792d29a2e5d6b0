// The order in which units are used and reduced, the same on all ranks: recorded in the first step, replayed later.
//
// While recording, every event is compared among the ranks before anything is sent, so that ranks on different paths
// through the model get an error with both names in place of a hang or swapped data. While replaying, each rank checks
// its own record, for free; a rank that leaves it asks the others again, and all go on recording where all left it
// alike. A rank that leaves it alone waits for the others until the group's time limit, and is named then.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/process_group.h"

namespace shoal::fsdp {

struct UnitEvent {
  enum Kind : std::int32_t { use, reduce, end };
  Kind kind = end;
  std::int32_t unit = -1;
  std::int32_t memory = 0;  // for `reduce`: what it is sent from, which must be the same on all ranks
  bool operator==(const UnitEvent&) const = default;
};

class UnitOrder {
 public:
  // `control`: host memory. Both arguments outlive this.
  UnitOrder(comm::ProcessGroup& control, const std::vector<std::string>& unit_names)
      : control_(&control), names_(&unit_names) {}

  // Starts a pass through the model. Passes of one `kind` (training, evaluation) are expected to be alike.
  void begin(int kind);
  // Collective over the control group while recording. CommunicationError where ranks disagree.
  void happened(UnitEvent event);
  void finish() { happened({UnitEvent::end}); }
  // After an exception: the record of this kind of pass starts anew.
  void forget();

  // What comes next, as far as it is known; empty while recording.
  std::span<const UnitEvent> upcoming() const;

 private:
  void compare(UnitEvent event);
  std::string text(UnitEvent event) const;

  comm::ProcessGroup* control_;
  const std::vector<std::string>* names_;
  std::map<int, std::vector<UnitEvent>> records_;
  std::vector<UnitEvent>* record_ = nullptr;
  std::size_t place_ = 0;
  bool recording_ = true;
};

}  // namespace shoal::fsdp
