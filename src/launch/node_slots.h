// The activity of all ranks of this node, in one piece of memory that they share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/activity.h"

namespace shoal::launch {

class NodeSlots {
 public:
  // Collective over the ranks of MPI_COMM_WORLD: from now on this process's slot is one that its neighbours see.
  // Where the node has no memory to share (/dev/shm is full, say) this rank sees itself alone, and a warning says so.
  NodeSlots();
  // This process's slot is its own again; MPI need not be there any more.
  ~NodeSlots();
  NodeSlots(const NodeSlots&) = delete;
  NodeSlots& operator=(const NodeSlots&) = delete;

  // Those of the node's ranks, in their order, and which of them is this one's.
  const std::vector<activity::Slot*>& slots() const { return slots_; }
  std::size_t own() const { return own_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<activity::Slot*> slots_;
  std::size_t own_ = 0;
};

}  // namespace shoal::launch
