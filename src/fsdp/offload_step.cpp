#include "fsdp/offload_step.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "core/logging.h"
#include "core/trace.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {

OffloadStep::OffloadStep(const std::vector<TrainedFlat>& flats, OffloadCopies& copies, Trace* trace)
    : flats_(&flats), copies_(&copies), trace_(trace), shards_(flats.size()) {
  for (std::size_t i = 0; i < flats.size(); ++i) {
    const FlatParameter& flat = *flats[i].flat;
    const at::ScalarType gathered = flat.gathered_shard().scalar_type();
    if (flat.is_uploaded() && gathered != flat.master().scalar_type())
      shards_[i].staging =
          zeros_on(flat.gathered_shard().device(), /*on_host=*/true, flat.layout().shard_numel(), gathered);
  }
}

OffloadStep::~OffloadStep() {
  try {
    finish();
  } catch (const std::exception& error) {
    log::error("the optimizer's last step on the host failed: {}", error.what());
  }
}

void OffloadStep::finish() {
  for (const TrainedFlat& trained : *flats_) trained.flat->update().finish();
}

void OffloadStep::begin(const optim::Optimizer& rule, std::vector<optim::GroupRule> groups,
                        const StepFactors& factors) {
  // A new thread has the number of threads that were set first, not last.
  step_ = std::make_shared<const Step>(Step{&rule, std::move(groups), factors, at::get_num_threads()});
  copies_->begin_to_device();
}

HostArrays OffloadStep::arrays_of(std::size_t index, const at::Tensor& gradient) {
  const TrainedFlat& trained = (*flats_)[index];
  FlatParameter& flat = *trained.flat;
  HostArrays arrays{flat.master(), gradient, trained.states, shards_[index].staging};
  if (!flat.is_uploaded() && !flat.gathered_shard().is_same(flat.master())) arrays.rounded = flat.gathered_shard();
  if (!flat.is_uploaded()) flat.await_copies_of_shard();
  return arrays;
}

void OffloadStep::start(std::size_t index, const at::Tensor& gradient) {
  FlatParameter& flat = *(*flats_)[index].flat;
  const std::int64_t number =
      worker_.give([this, step = step_, index, arrays = arrays_of(index, gradient)] { run(*step, index, arrays); });
  flat.update().set([this, number, index, &flat] {
    worker_.wait(number);
    shards_[index].uploaded.hold_back(flat.gathered_shard().device());
    flat.drop_gradients();
  });
}

// On the worker's thread.
void OffloadStep::run(const Step& step, std::size_t index, const HostArrays& arrays) {
  const at::NoGradGuard no_grad;
  if (at::get_num_threads() != step.threads) at::set_num_threads(step.threads);
  const TrainedFlat& trained = (*flats_)[index];
  const double start = trace_ != nullptr ? trace_->now() : 0;
  DeviceMark& uploaded = shards_[index].uploaded;
  uploaded.wait();  // the step before was copied from the same memory
  step_on_host(*step.rule, arrays, trained.spans, step.groups, step.factors);
  if (trace_ != nullptr)
    trace_->add(Trace::Lane::optimizer, "step of unit '" + trained.flat->unit().name() + "' on the host", start,
                trace_->now());
  if (!trained.flat->is_uploaded()) return;
  copies_->to_device(arrays.rounded.defined() ? arrays.rounded : arrays.master, trained.flat->gathered_shard(),
                     uploaded);
}

}  // namespace shoal::fsdp
