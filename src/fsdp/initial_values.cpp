#include "fsdp/initial_values.h"

#include <ATen/ops/empty.h>
#include <malloc.h>

#include "fsdp/deferred_init.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {
namespace {

bool recorded_the_same(comm::ProcessGroup& world, const DeferredInit& deferred) {
  const auto hash = static_cast<std::int64_t>(deferred.fingerprint());
  return comm::all_reduce(world, hash, comm::ReduceOp::min) == comm::all_reduce(world, hash, comm::ReduceOp::max);
}

void broadcast_from_first(comm::DeviceMesh& mesh, const at::Tensor& values) {
  if (values.numel() == 0) return;
  for (comm::ProcessGroup* group : {&mesh.shard(), &mesh.replicate()})
    group->broadcast(values.data_ptr(), values.numel(), torch_internals::dtype_of(values.scalar_type()), 0)->wait();
}

// Freed parameters leave holes between the shards that stay, which glibc keeps and the next parameter may not fit in:
// in the end they would add up to the whole model.
void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

constexpr std::size_t kWorthReturning = std::size_t{1} << 20;

}  // namespace

InitialValues::InitialValues(comm::DeviceMesh& mesh, const FullyShardOptions& options, at::Device device)
    : mesh_(&mesh),
      options_(&options),
      device_(device),
      each_makes_its_own_(options.deferred_init != nullptr && recorded_the_same(mesh.world(), *options.deferred_init)) {
  each_makes_its_own_ = each_makes_its_own_ || !options.sync_module_states;
}

bool InitialValues::is_deferred(const at::Tensor& parameter) const {
  return options_->deferred_init != nullptr && options_->deferred_init->is_deferred(parameter);
}

// Contiguous, on the device, in memory of its own; uninitialised where rank 0's are going to be written over it.
at::Tensor InitialValues::whole(const at::Tensor& parameter) const {
  if (!is_deferred(parameter))
    return parameter.detach().to(device_, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  if (mesh_->world().rank() == 0) return options_->deferred_init->values(parameter).to(device_).contiguous();
  return at::empty(parameter.sizes(), parameter.options().device(device_).requires_grad(false));
}

void InitialValues::write(const at::Tensor& parameter, const TensorSlice& mine, const at::Tensor& shard) const {
  if (options_->skip_init) return;
  const bool makes_its_own = is_deferred(parameter) && each_makes_its_own_;
  if (makes_its_own && mine.count == 0) return;
  at::Tensor values = makes_its_own ? options_->deferred_init->values(parameter) : whole(parameter);
  if (!makes_its_own && options_->sync_module_states) broadcast_from_first(*mesh_, values);
  shard.narrow(0, mine.shard_begin, mine.count).copy_(values.flatten().narrow(0, mine.tensor_begin, mine.count));
  const bool large = values.nbytes() >= kWorthReturning;
  values.reset();
  if (large) return_freed_memory();
}

}  // namespace shoal::fsdp
