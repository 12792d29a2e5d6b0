// The parameters of one unit that share a dtype and are all trained or all frozen, as one flat buffer.
//
// Each rank of the shard group owns one shard of it: the master elements (fp32 for 16-bit parameters) that the
// optimizer works on. They are gathered as operators see them: rounded on their way into the whole buffer, so that
// nothing else is kept, or from a copy where masters are on the host. The whole buffer has memory only
// between unshard and reshard; the module's parameters are views of it. Where the shard group is one rank, the whole
// buffer is the shard and stays, unless that is what lives on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/flat_gradient.h"
#include "fsdp/fully_shard.h"
#include "fsdp/pending_update.h"
#include "fsdp/torch_internals.h"
#include "fsdp/unit_buffers.h"
#include "fsdp/unit_plan.h"
#include "fsdp/unit_sizes.h"
#include "fsdp/unit_storage.h"
#include "shard/shard_layout.h"
#include "shard/state_dict.h"

namespace shoal::fsdp {

class InitialValues;
class Unit;

// What the flat parameters of a module share.
struct FlatContext {
  comm::DeviceMesh& mesh;
  UnitBuffers& buffers;
  const FullyShardOptions& options;
  const InitialValues& initial_values;
};

class FlatParameter final : public UnitStorage {
 public:
  // All of `parameters` have one dtype. `unit` and what `context` refers to, but for the initial values, outlive this.
  // Takes over their values, unrounded, and makes them tensors of the policy's type; one of them at a time is whole.
  // Collective over the mesh.
  FlatParameter(torch_internals::StorageOwner& owner, Unit& unit, std::vector<ModuleParameter> parameters,
                const FlatContext& context);
  ~FlatParameter() override;

  bool trained() const { return gradients_ != nullptr; }
  const ShardLayout& layout() const { return layout_; }
  const FlatDtypes& dtypes() const { return dtypes_; }  // as asked for
  const std::vector<ModuleParameter>& parameters() const { return parameters_; }

  // This rank's shard: layout().shard_numel() elements, padding zero. On the host where that is offloaded. Waits for
  // update().
  const at::Tensor& master() const {
    update_.finish();
    return master_;
  }
  // The same elements as the next unshard gathers them: master() itself where dtypes and devices agree; undefined where
  // every unshard rounds master() anew. Whoever writes into master() writes here too, or calls master_changed().
  const at::Tensor& gathered_shard() const { return compute_; }
  // Whether master() is on the host beside a device; of these, whether gathered_shard() is not.
  bool offloaded() const { return sizes_.master_on_host(); }
  bool is_uploaded() const { return sizes_.offload == Offload::optimizer; }
  // A step that goes on while this thread does other things: whoever reads or writes shards or gradients waits for it.
  PendingUpdate& update() const { return update_; }
  // Blocks until nothing is copied from a gathered_shard() on the host any more.
  void await_copies_of_shard() { upload_.wait(); }
  // Its gradient, summed over all micro-steps and ranks; undefined where there is none yet. See FlatGradient::value().
  const at::Tensor& gradient();

  const FlatSizes& sizes() const { return sizes_; }
  // Must follow before anything is gathered where sizes().placed asks for memory, which may be of the shard group.
  void place_shard(const at::Tensor& memory);

  // Whether the whole buffer always has memory: unshard and reshard do nothing.
  bool permanent() const { return sizes_.permanent; }
  // Collective over the shard group, or over the mesh's regather group where reshard_to_regather_group() left the
  // parameters there. finish_unshard() must follow start_unshard().
  void start_unshard();
  void finish_unshard();
  void reshard();
  // reshard(), after which the ranks of the regather group hold the parameters among them, until the next reshard() or
  // drop_regather_shard(). They must not be changed in the meantime.
  void reshard_to_regather_group();
  void drop_regather_shard();
  // What the optimizer or a restart wrote into master() becomes what the next unshard gathers.
  void master_changed();
  // The elements of the whole buffer, which must be unsharded, that were written to become this rank's shard.
  void keep_shard_of_unsharded();

  FlatGradient* gradients() const { return gradients_.get(); }  // null for frozen parameters
  void* gradient_place(std::int64_t begin, std::int64_t bytes) override;
  // Takes the gradient of parameter `index` out of its .grad.
  void collect_gradient(std::size_t index);
  void drop_gradients();  // all of this step

  // One entry a parameter, named prefix + FQN, of `values`, which is cut like master().
  StateDict state_dict(const std::string& prefix, const at::Tensor& values, StateMemory memory) const;

 private:
  void make_shards();
  void take_over(std::size_t index, const InitialValues& initial_values);

  std::vector<ModuleParameter> parameters_;
  comm::DeviceMesh* mesh_;
  BufferPool *pool_, *device_pool_;  // of unsharded_ and of regather_shard_
  OffloadCopies* copies_;
  FlatDtypes dtypes_;
  ShardLayout layout_;
  FlatSizes sizes_;
  at::Tensor master_;   // what the optimizer sees
  at::Tensor compute_;  // gathered_shard()
  DeviceMark upload_;   // the last copy of a compute_ on the host, or of master_, into a whole buffer
  at::Tensor unsharded_;
  at::Tensor regather_shard_;  // this rank's part of unsharded_ among the regather group
  std::unique_ptr<comm::Work> gathering_;
  std::unique_ptr<FlatGradient> gradients_;
  mutable PendingUpdate update_;
};

}  // namespace shoal::fsdp
