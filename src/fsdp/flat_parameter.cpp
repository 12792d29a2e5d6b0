#include "fsdp/flat_parameter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "fsdp/host_memory.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

using torch_internals::dtype_of;

// Shards start on the boundary of a cache line, for vector loads of the optimizer and 16-byte messages of NCCL.
constexpr std::int64_t kShardAlignment = 16;

std::vector<std::int64_t> numels(const std::vector<ModuleParameter>& parameters) {
  std::vector<std::int64_t> n;
  for (const ModuleParameter& p : parameters) n.push_back(p.tensor.numel());
  return n;
}

at::ScalarType master_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

std::string unavailable(const std::string& unit) {
  return fmt::format(
      "a parameter of FSDP unit '{}' is sharded here: read it inside FullyShardedModule::run() or summon_full_params()",
      unit);
}

}  // namespace

FlatParameter::FlatParameter(torch_internals::StorageOwner& owner, Unit& unit, std::vector<ModuleParameter> parameters,
                             comm::DeviceMesh& mesh, BufferPool& pool)
    : StorageUser(owner, ShardLayout(numels(parameters), mesh.shard_size(), kShardAlignment).padded_numel(),
                  parameters.at(0).tensor.scalar_type(), parameters.at(0).tensor.device(), unavailable(unit.name())),
      unit_(&unit),
      parameters_(std::move(parameters)),
      mesh_(&mesh),
      pool_(&pool),
      trained_(parameters_[0].tensor.requires_grad()),
      layout_(numels(parameters_), mesh.shard_size(), kShardAlignment),
      has_gradient_(parameters_.size(), 0) {
  const at::NoGradGuard no_grad;
  const auto options = parameters_[0].tensor.options().requires_grad(false);
  unsharded_ = whole() ? at::empty({layout_.padded_numel()}, options)
                       : pool.acquire(layout_.padded_numel(), flat().scalar_type());
  unsharded_.narrow(0, layout_.numel(), layout_.padded_numel() - layout_.numel()).zero_();
  lend_memory(unsharded_.data_ptr());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& tensor = parameters_[i].tensor;
    const Range place = layout_.tensor(i);
    const at::Tensor view = flat().narrow(0, place.begin, place.count).view(tensor.sizes());
    view.copy_(tensor);
    tensor.set_data(view);
  }
  const at::ScalarType kept = master_type(flat().scalar_type());
  if (whole() && kept == flat().scalar_type()) {
    master_ = compute_ = unsharded_;
  } else {
    const Range mine = layout_.shard(mesh.shard().rank());
    master_ = unsharded_.narrow(0, mine.begin, mine.count).to(kept, false, true);
    compute_ = kept == flat().scalar_type() ? master_ : unsharded_.narrow(0, mine.begin, mine.count).clone();
  }
}

FlatParameter::~FlatParameter() = default;

void FlatParameter::broadcast_from_first() {
  const DType dtype = dtype_of(unsharded_.scalar_type());
  mesh_->shard().broadcast(unsharded_.data_ptr(), layout_.padded_numel(), dtype, 0)->wait();
  mesh_->replicate().broadcast(unsharded_.data_ptr(), layout_.padded_numel(), dtype, 0)->wait();
  keep_shard_of_unsharded();
}

void FlatParameter::start_unshard() {
  if (has_memory() || gathering_) return;
  unsharded_ = pool_->acquire(layout_.padded_numel(), flat().scalar_type());
  gathering_ = mesh_->shard().all_gather(compute_.data_ptr(), unsharded_.data_ptr(), layout_.shard_numel(),
                                         dtype_of(flat().scalar_type()));
}

void FlatParameter::finish_unshard() {
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
  lend_memory(unsharded_.data_ptr());
}

void FlatParameter::reshard() {
  if (whole()) return;
  finish_unshard();
  if (!has_memory()) return;
  take_memory();
  pool_->release(std::exchange(unsharded_, {}));
}

void FlatParameter::master_changed() {
  if (compute_.is_same(master_)) return;
  const at::NoGradGuard no_grad;
  compute_.copy_(master_);
  if (whole() && has_memory()) unsharded_.copy_(master_);
}

void FlatParameter::keep_shard_of_unsharded() {
  SHOAL_ASSERT(has_memory());
  if (master_.is_same(unsharded_)) return;
  const at::NoGradGuard no_grad;
  const Range mine = layout_.shard(mesh_->shard().rank());
  master_.copy_(unsharded_.narrow(0, mine.begin, mine.count));
  if (!compute_.is_same(master_)) compute_.copy_(unsharded_.narrow(0, mine.begin, mine.count));
}

void FlatParameter::expect_gradients() {
  std::fill(has_gradient_.begin(), has_gradient_.end(), 0);
  missing_ = trained_ ? parameters_.size() : 0;
}

void FlatParameter::collect_gradient(std::size_t index) {
  at::Tensor& slot = parameters_[index].tensor.mutable_grad();
  const at::Tensor gradient = slot.detach();
  slot.reset();
  SHOAL_CHECK(gradient.layout() == at::kStrided, OptionError,
              "parameter '{}' has a sparse gradient; FSDP needs dense ones (for an embedding: sparse=false)",
              parameters_[index].fqn);
  SHOAL_ASSERT(!has_gradient_[index]);  // an accumulator fires once a backward pass
  const at::NoGradGuard no_grad;
  if (!whole_gradient_.defined()) whole_gradient_ = pool_->acquire(layout_.padded_numel(), flat().scalar_type());
  const Range place = layout_.tensor(index);
  const at::Tensor to = whole_gradient_.narrow(0, place.begin, place.count).view(gradient.sizes());
  to.copy_(gradient);
  has_gradient_[index] = 1;
  --missing_;
}

void FlatParameter::start_reduce() {
  const at::NoGradGuard no_grad;
  if (!whole_gradient_.defined()) whole_gradient_ = pool_->acquire(layout_.padded_numel(), flat().scalar_type());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!has_gradient_[i]) whole_gradient_.narrow(0, layout_.tensor(i).begin, layout_.tensor(i).count).zero_();
  whole_gradient_.narrow(0, layout_.numel(), layout_.padded_numel() - layout_.numel()).zero_();
  missing_ = 0;
  if (whole()) return;
  incoming_gradient_ = pool_->acquire(layout_.shard_numel(), flat().scalar_type());
  reducing_ =
      mesh_->reduce().reduce_scatter(whole_gradient_.data_ptr(), incoming_gradient_.data_ptr(), layout_.shard_numel(),
                                     dtype_of(flat().scalar_type()), comm::ReduceOp::sum);
}

void FlatParameter::finish_reduce() {
  if (whole()) {
    if (whole_gradient_.defined()) accumulate(whole_gradient_);
  } else if (reducing_) {
    reducing_->wait();
    reducing_.reset();
    accumulate(incoming_gradient_);
    if (incoming_gradient_.defined()) pool_->release(std::exchange(incoming_gradient_, {}));
  }
  drop_whole_gradient();
}

// Sums over micro-steps are kept in the master's precision. Takes `shard_gradient` over where it can.
void FlatParameter::accumulate(at::Tensor& shard_gradient) {
  const at::NoGradGuard no_grad;
  if (gradient_.defined()) {
    SHOAL_CHECK(
        !replicas_summed_ || mesh_->replicate_size() == 1, InternalError,
        "run() was called between grad_norm() and the optimizer's step: the replicas' sum would be counted twice");
    gradient_.add_(shard_gradient);
  } else if (shard_gradient.scalar_type() == master_.scalar_type()) {
    gradient_ = std::exchange(shard_gradient, {});
  } else {
    gradient_ = pool_->acquire(layout_.shard_numel(), master_.scalar_type());
    gradient_.copy_(shard_gradient);
  }
  replicas_summed_ = mesh_->replicate_size() == 1;
}

const at::Tensor& FlatParameter::gradient() {
  if (gradient_.defined() && !replicas_summed_) {
    mesh_->replicate()
        .all_reduce(gradient_.data_ptr(), gradient_.numel(), dtype_of(gradient_.scalar_type()), comm::ReduceOp::sum)
        ->wait();
    replicas_summed_ = true;
  }
  return gradient_;
}

void FlatParameter::drop_whole_gradient() {
  if (whole_gradient_.defined()) pool_->release(std::exchange(whole_gradient_, {}));
}

void FlatParameter::drop_gradients() {
  drop_whole_gradient();
  if (gradient_.defined()) pool_->release(std::exchange(gradient_, {}));
  replicas_summed_ = true;
}

StateDict FlatParameter::state_dict(const std::string& prefix, const at::Tensor& values) const {
  StateDict state;
  const std::int64_t width = values.element_size();
  auto* base = host_memory(values, state);
  const std::string rule =
      fmt::format("{}:{}{}", unit_->name(), name_of(dtype_of(flat().scalar_type())), trained_ ? "" : ":frozen");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const TensorSlice slice = layout_.slice(i, mesh_->shard().rank());
    ShardedTensor tensor;
    tensor.spec = {prefix + parameters_[i].fqn, dtype_of(values.scalar_type()), parameters_[i].tensor.sizes().vec()};
    tensor.rule = {rule, layout_.tensor(i).begin, layout_.shard_numel()};
    tensor.region = {slice.tensor_begin, slice.count, base + slice.shard_begin * width};
    tensor.saves = mesh_->replicate().rank() == 0;
    state.tensors.push_back(std::move(tensor));
  }
  return state;
}

}  // namespace shoal::fsdp
