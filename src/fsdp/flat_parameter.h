// The parameters of one unit that share a dtype and are all trained or all frozen, as one flat buffer.
//
// Each rank of the shard group owns one shard of it: the master elements (fp32 for 16-bit parameters) that the
// optimizer works on. The whole buffer has memory only between unshard and reshard; the module's parameters are views
// of it. Where the shard group is one rank, the whole buffer is the shard and stays.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/torch_internals.h"
#include "shard/shard_layout.h"
#include "shard/state_dict.h"

namespace shoal::fsdp {

class Unit;

// A parameter as the module knows it. Its TensorImpl stays; its storage becomes a view of the flat buffer.
struct ModuleParameter {
  std::string fqn;
  at::Tensor tensor;
};

class FlatParameter final : public torch_internals::StorageUser {
 public:
  // All of `parameters` have one dtype and device. `unit` outlives this. Takes over their values.
  FlatParameter(torch_internals::StorageOwner& owner, Unit& unit, std::vector<ModuleParameter> parameters,
                comm::DeviceMesh& mesh, BufferPool& pool);
  ~FlatParameter() override;

  Unit& unit() const { return *unit_; }
  bool trained() const { return trained_; }
  const ShardLayout& layout() const { return layout_; }
  const std::vector<ModuleParameter>& parameters() const { return parameters_; }

  // This rank's shard: layout().shard_numel() elements, padding zero.
  const at::Tensor& master() const { return master_; }
  // Its gradient, summed over all micro-steps and ranks; undefined where there is none yet.
  const at::Tensor& gradient();

  // Collective over the mesh's shard group. Everybody's values become those of its rank 0, then of replica 0.
  void broadcast_from_first();

  // Collective over the shard group. finish_unshard() must follow start_unshard().
  void start_unshard();
  void finish_unshard();
  void reshard();
  // What the optimizer or a restart wrote into master() becomes what the next unshard gathers.
  void master_changed();
  // The whole buffer, which must be unsharded, becomes the new value of this rank's shard.
  void keep_shard_of_unsharded();

  // Takes the gradient of parameter `index` out of its .grad.
  void collect_gradient(std::size_t index);
  std::size_t gradients_missing() const { return missing_; }
  void expect_gradients();
  // Collective over the shard group. Parameters without a gradient count as zero.
  void start_reduce();
  void finish_reduce();
  void drop_gradients();       // all of this step
  void drop_whole_gradient();  // what was collected but not reduced

  // One entry a parameter, named prefix + FQN, pointing into `values`, which is cut like master(); where that is the
  // memory of a GPU, into a copy that is written back by StateDict::loaded().
  StateDict state_dict(const std::string& prefix, const at::Tensor& values) const;

 private:
  bool whole() const { return mesh_->shard_size() == 1; }
  void accumulate(at::Tensor& shard_gradient);

  Unit* unit_;
  std::vector<ModuleParameter> parameters_;
  comm::DeviceMesh* mesh_;
  BufferPool* pool_;
  bool trained_;
  ShardLayout layout_;
  at::Tensor master_;   // what the optimizer sees
  at::Tensor compute_;  // master_ in the parameters' dtype; the same tensor where the dtypes agree
  at::Tensor unsharded_;
  std::unique_ptr<comm::Work> gathering_;

  std::vector<char> has_gradient_;
  std::size_t missing_ = 0;
  at::Tensor whole_gradient_, incoming_gradient_, gradient_;
  std::unique_ptr<comm::Work> reducing_;
  bool replicas_summed_ = true;  // gradient_ holds the sum over the replicate group
};

}  // namespace shoal::fsdp
