// Whether the replicas of a model are still the same. Gradients that one of them did not get, or memory that went
// wrong, leave it training on with weights of its own, and nothing else would tell.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/device_mesh.h"

namespace shoal::fsdp {

class Unit;

// Of the bits of all elements of contiguous `values` and their places, computed where they are: a change of one element
// always gives another hash, other changes all but always. Waits for the device.
std::uint64_t hash_of(const at::Tensor& values);

class ReplicaCheck {
 public:
  // `at_start`: before the first run() of training. `every`: and before each that many-th run() after it; 0: no more.
  // `units` and `mesh` outlive this; units may be added later.
  ReplicaCheck(comm::DeviceMesh& mesh, const std::vector<std::unique_ptr<Unit>>& units, bool at_start,
               std::int64_t every)
      : mesh_(&mesh), units_(&units), at_start_(at_start), every_(every) {}

  // Before a run() of training. Where this is one to check, collective over the mesh's world: compares the masters,
  // their types and sizes among the ranks that hold the same shard. CommunicationError on all ranks where they differ,
  // which names the unit, a rank that differs, one that does not, and their hosts.
  void before_run();

 private:
  void check() const;

  comm::DeviceMesh* mesh_;
  const std::vector<std::unique_ptr<Unit>>* units_;
  bool at_start_;
  std::int64_t every_;
  std::int64_t runs_ = 0;
};

}  // namespace shoal::fsdp
