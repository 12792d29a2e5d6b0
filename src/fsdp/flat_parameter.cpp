#include "fsdp/flat_parameter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/where.h>

#include <utility>

#include "core/check.h"
#include "fsdp/host_memory.h"
#include "fsdp/initial_values.h"
#include "fsdp/region_memory.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

using torch_internals::dtype_of;

std::vector<std::int64_t> numels(const std::vector<ModuleParameter>& parameters) {
  std::vector<std::int64_t> n;
  for (const ModuleParameter& p : parameters) n.push_back(p.tensor.numel());
  return n;
}

ShardLayout layout_of(const std::vector<ModuleParameter>& parameters, const comm::DeviceMesh& mesh) {
  return fsdp::layout_of(numels(parameters), shape_of(mesh));
}

std::string unavailable(const std::string& unit) {
  return fmt::format(
      "a parameter of FSDP unit '{}' is sharded here: read it inside FullyShardedModule::run() or summon_full_params()",
      unit);
}

}  // namespace

FlatParameter::FlatParameter(torch_internals::StorageOwner& owner, Unit& unit, std::vector<ModuleParameter> parameters,
                             const FlatContext& context)
    : UnitStorage(owner, unit, layout_of(parameters, context.mesh).padded_numel(),
                  flat_dtypes(parameters.at(0).tensor.scalar_type(), context.options).params,
                  context.initial_values.device(), unavailable(unit.name())),
      parameters_(std::move(parameters)),
      mesh_(&context.mesh),
      pool_(&context.buffers.parameters(unit)),
      device_pool_(&context.buffers.device()),
      copies_(&context.buffers.copies()),
      dtypes_(flat_dtypes(parameters_[0].tensor.scalar_type(), context.options)),
      layout_(layout_of(parameters_, context.mesh)),
      sizes_(flat_sizes(layout_, dtypes_, parameters_[0].tensor.requires_grad(), shape_of(context.mesh),
                        context.options, flat().is_cpu())) {
  const at::NoGradGuard no_grad;
  make_shards();
  for (std::size_t i = 0; i < parameters_.size(); ++i) take_over(i, context.initial_values);
  master_changed();
  if (!parameters_[0].tensor.requires_grad()) return;
  UnitBuffers& buffers = context.buffers;
  const GradientPools pools{buffers.gradients(unit), buffers.received(unit), buffers.device(),
                            offloaded() ? buffers.host() : buffers.device(), &buffers.copies()};
  gradients_ = std::make_unique<FlatGradient>(
      layout_, dtypes_, *mesh_, pools,
      FlatGradient::Options{.deterministic = context.options.deterministic, .scatters = mesh_->shard_size() > 1});
}

FlatParameter::~FlatParameter() = default;

void FlatParameter::make_shards() {
  const at::Device device = flat().device();
  const bool alike = dtypes_.masters == dtypes_.params;
  master_ = zeros_on(device, offloaded(), layout_.shard_numel(), dtypes_.masters, /*copied=*/alike);
  if (alike && !is_uploaded())
    compute_ = master_;
  else if (sizes_.compute_on_host() || sizes_.permanent)
    compute_ = zeros_on(device, sizes_.compute_on_host(), layout_.shard_numel(), dtypes_.params);
  if (!sizes_.permanent) return;
  unsharded_ = compute_;
  lend_memory(unsharded_.data_ptr());
}

void FlatParameter::place_shard(const at::Tensor& memory) {
  compute_ = memory.view(dtypes_.params);
  master_changed();
}

void FlatParameter::take_over(std::size_t index, const InitialValues& initial_values) {
  at::Tensor& parameter = parameters_[index].tensor;
  initial_values.write(parameter, layout_.slice(index, mesh_->shard().rank()), master_);
  const Range place = layout_.tensor(index);
  parameter.set_data(flat().narrow(0, place.begin, place.count).view(parameter.sizes()));
}

void FlatParameter::start_unshard() {
  update_.finish();
  if (has_memory() || gathering_) return;
  unsharded_ = pool_->acquire(layout_.padded_numel(), dtypes_.params, &layout_);
  if (regather_shard_.defined()) {
    gathering_ = mesh_->regather()->all_gather(regather_shard_.data_ptr(), unsharded_.data_ptr(),
                                               regather_shard_.numel(), dtype_of(dtypes_.params));
    return;
  }
  const auto gather_from = [this](const at::Tensor& shard) {
    gathering_ = mesh_->shard().all_gather(shard.data_ptr(), unsharded_.data_ptr(), layout_.shard_numel(),
                                           dtype_of(dtypes_.params));
  };
  if (compute_.defined() && compute_.device() == unsharded_.device()) return gather_from(compute_);
  // The collective takes this rank's part from its place.
  const Range mine = layout_.shard(mesh_->shard().rank());
  const at::Tensor place = unsharded_.narrow(0, mine.begin, mine.count);
  copies_->to_device_then(compute_.defined() ? compute_ : master_, place, upload_, [&] { gather_from(place); });
}

void FlatParameter::finish_unshard() {
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
  upload_.hold_back(flat().device());  // a group of one rank has nothing to wait for
  lend_memory(unsharded_.data_ptr());
}

void FlatParameter::reshard() {
  if (sizes_.permanent) return;
  finish_unshard();
  if (!has_memory()) return;
  take_memory();
  pool_->release(std::exchange(unsharded_, {}));
}

void FlatParameter::reshard_to_regather_group() {
  if (sizes_.permanent) return;
  finish_unshard();
  if (has_memory() && !regather_shard_.defined()) {
    const at::NoGradGuard no_grad;
    const comm::ProcessGroup& group = *mesh_->regather();
    const std::int64_t part = layout_.padded_numel() / group.size();
    regather_shard_ = device_pool_->acquire(part, dtypes_.params);
    regather_shard_.copy_(unsharded_.narrow(0, group.rank() * part, part));
  }
  reshard();
}

void FlatParameter::drop_regather_shard() {
  if (regather_shard_.defined()) device_pool_->release(std::exchange(regather_shard_, {}));
}

void FlatParameter::master_changed() {
  if (!compute_.defined() || compute_.is_same(master_)) return;
  const at::NoGradGuard no_grad;
  update_.finish();
  upload_.wait();
  compute_.copy_(master_);
}

void FlatParameter::keep_shard_of_unsharded() {
  SHOAL_ASSERT(has_memory());
  if (master_.is_same(unsharded_)) return;
  const at::NoGradGuard no_grad;
  update_.finish();
  const Range mine = layout_.shard(mesh_->shard().rank());
  const at::Tensor now = unsharded_.narrow(0, mine.begin, mine.count).to(master_.device());
  // What nobody wrote to keeps the digits that operators do not see.
  master_.copy_(at::where(now.eq(master_.to(now.scalar_type())), master_, now.to(master_.scalar_type())));
  upload_.wait();
  if (compute_.defined()) compute_.copy_(master_);
}

void* FlatParameter::gradient_place(std::int64_t begin, std::int64_t bytes) {
  if (!gradients_ || torch_internals::backward_pass() < 0) return nullptr;
  owner().before_gradient();
  return gradients_->place_for(begin, bytes);
}

void FlatParameter::collect_gradient(std::size_t index) {
  at::Tensor& slot = parameters_[index].tensor.mutable_grad();
  const at::Tensor gradient = slot.detach();
  slot.reset();
  SHOAL_CHECK(gradient.layout() == at::kStrided, OptionError,
              "parameter '{}' has a sparse gradient; FSDP needs dense ones (for an embedding: sparse=false)",
              parameters_[index].fqn);
  gradients_->collect(index, gradient);
}

const at::Tensor& FlatParameter::gradient() {
  static const at::Tensor none;
  update_.finish();
  return gradients_ ? gradients_->value() : none;
}

void FlatParameter::drop_gradients() {
  update_.finish();
  if (gradients_) gradients_->drop();
}

StateDict FlatParameter::state_dict(const std::string& prefix, const at::Tensor& values, StateMemory memory) const {
  StateDict state;
  const RegionMemory elements(values, memory, state);
  const std::string rule =
      fmt::format("{}:{}{}", unit().name(), name_of(dtype_of(dtypes_.module)), trained() ? "" : ":frozen");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const TensorSlice slice = layout_.slice(i, mesh_->shard().rank());
    ShardedTensor tensor;
    tensor.spec = {prefix + parameters_[i].fqn, dtype_of(values.scalar_type()), parameters_[i].tensor.sizes().vec()};
    tensor.rule = {rule, layout_.tensor(i).begin, layout_.shard_numel()};
    tensor.region = elements.region(slice.tensor_begin, slice.count, slice.shard_begin);
    tensor.saves = mesh_->replicate().rank() == 0;
    state.tensors.push_back(std::move(tensor));
  }
  return state;
}

}  // namespace shoal::fsdp
