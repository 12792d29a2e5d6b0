// What units take of a rank's memory, in bytes, as a function of their parameters, the options and the mesh alone: what
// the engine makes its tensors by, and what a plan adds up for ranks that are not there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fsdp/fully_shard.h"
#include "fsdp/mixed_precision.h"
#include "shard/shard_layout.h"

namespace torch::nn {
class Module;
}

namespace shoal::fsdp {

class WrapPolicy;

// Of a DeviceMesh.
struct MeshShape {
  int shard = 1, replicate = 1, regather = 0;
  int ranks() const { return shard * replicate; }
};
MeshShape shape_of(const comm::DeviceMesh& mesh);

// Of one flat parameter on one rank; 0 for what it does not have.
struct FlatSizes {
  std::int64_t numel = 0;  // elements of its parameters
  bool trained = true;
  bool permanent = false;           // the whole buffer is the shard, and always there
  Offload offload = Offload::none;  // what of it has an effect on this device
  std::int64_t master = 0;
  std::int64_t saved = 0;               // the masters of all ranks together, without padding
  std::int64_t compute = 0;             // the shard as it is gathered, where that is another tensor than the master
  std::int64_t placed = 0;              // of that, what wants memory of the shard group
  std::int64_t whole = 0;               // between unshard and reshard
  std::int64_t regather = 0;            // kept from forward to backward for the regather group
  std::int64_t sent = 0, received = 0;  // whole gradients on their way
  std::int64_t kept = 0;                // a whole gradient between micro-steps that keep it, where that is no shard

  bool master_on_host() const { return offload != Offload::none; }
  bool compute_on_host() const { return offload == Offload::params; }
};
FlatSizes flat_sizes(const ShardLayout& layout, const FlatDtypes& dtypes, bool trained, const MeshShape& mesh,
                     const FullyShardOptions& options, bool on_cpu);

ShardLayout layout_of(const std::vector<std::int64_t>& numels, const MeshShape& mesh);

struct UnitSizes {
  std::string fqn;  // "" for the root
  std::vector<FlatSizes> flats;
  bool recomputable = true;  // see ModuleUnit
  bool is_root() const { return fqn.empty(); }
};

// Of the units that fully_shard() would make of `module`, which is only looked at: its tensors need no memory.
std::vector<UnitSizes> unit_sizes(torch::nn::Module& module, const WrapPolicy& policy, const MeshShape& mesh,
                                  const FullyShardOptions& options, bool on_cpu);

// Units but the root that may be whole, or on their way, at a time.
std::size_t most_whole(const FullyShardOptions& options);

}  // namespace shoal::fsdp
