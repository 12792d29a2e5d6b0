// Which units have their parameters whole: gathered when an operator needs them or ahead of that, resharded when
// operators have moved on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/fully_shard.h"
#include "fsdp/unit.h"
#include "fsdp/unit_order.h"

namespace shoal::fsdp {

class UnitSchedule {
 public:
  // Where a run() is.
  struct Now {
    bool backward;
    std::int64_t operator_number;  // of the operator about to run
  };

  // All outlive this; units may be added later. OptionError where the options, or they and the mesh, contradict each
  // other.
  UnitSchedule(const std::vector<std::unique_ptr<Unit>>& units, const UnitOrder& order, comm::DeviceMesh& mesh,
               const FullyShardOptions& options);

  // The unit of the operators of late; never the root.
  const Unit* active() const { return active_; }

  // Collective over the shard group; the order knows of the event. `unit` is whole afterwards, idle ones are resharded,
  // and the next ones are on their way.
  void use(Unit& unit, Now now);
  // In backward: `unit` has its gradients, which have been sent off where that is due. Collective over the shard group.
  void finish(Unit& unit);
  void reshard_all();

 private:
  bool may_reshard(const Unit& unit, Now now) const;
  void reshard_idle(Now now);
  void name_activity(const Unit& unit) const;
  void prefetch(int depth);

  const std::vector<std::unique_ptr<Unit>>* units_;
  const UnitOrder* order_;
  comm::DeviceMesh* mesh_;
  bool reshards_after_forward_, post_;
  int forward_depth_, backward_depth_;
  std::size_t most_whole_;
  Unit* active_ = nullptr;
  std::vector<Unit*> whole_;  // or on their way; never the root, which stays whole through a pass
};

}  // namespace shoal::fsdp
