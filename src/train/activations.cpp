#include "train/activations.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <array>

#include "fsdp/deferred_init.h"
#include "fused/operators.h"
#include "models/model.h"
#include "train/data_request.h"
#include "train/random_seed.h"

namespace shoal::train {
namespace {

at::Tensor without_values(const at::Tensor& sample, std::int64_t samples) {
  std::vector<std::int64_t> sizes = sample.sizes().vec();
  sizes.at(0) = samples;
  return at::empty(sizes, sample.options().device(at::kMeta));
}

data::Batch batch_without_values(const models::ModelEntry& entry, const TrainOptions& options, std::int64_t samples,
                                 const data::Dataset* data) {
  if (entry.batch_shapes) return entry.batch_shapes(samples, data_request(options));
  constexpr std::array<std::int64_t, 1> kFirst{0};
  const data::Batch first = data->batch(kFirst);
  return {without_values(first.inputs, samples), without_values(first.targets, samples),
          first.predicted < 0 ? first.predicted : samples * first.predicted};
}

}  // namespace

fsdp::ActivationPlan plan_activations(const models::ModelEntry& entry, const TrainOptions& options,
                                      std::int64_t micro_batch, bool on_gpu, const data::Dataset* data) try {
  if (!options.model.script.empty()) return {.unknown = "a TorchScript model is not looked into"};
  if (!options.model.deferred_init) return {.unknown = "with --no-deferred-init the model would need its memory"};
  if (!entry.batch_shapes && data == nullptr) return {.unknown = "what a batch looks like is not known without --data"};
  const auto how = fully_shard_options(options.sharding, options.run.deterministic);
  models::ModelOptions shape = options.model.shape;
  shape.seed = static_cast<std::uint64_t>(options.run.seed);
  fsdp::DeferredInit deferred;
  std::unique_ptr<models::Model> model;
  at::manual_seed(model_seed(shape.seed));
  deferred.record([&] { model = entry.make(shape); });
  model->set_training(true);
  const fused::MetaIsGpu kernels(on_gpu);
  return fsdp::plan_activations(
      *model->module(), *fsdp::parse_wrap_policy(options.sharding.wrap), how, on_gpu, [&]() -> at::Tensor {
        data::Batch batch = batch_without_values(entry, options, micro_batch, data);
        if (how.mixed_precision.param_dtype && batch.inputs.is_floating_point())
          batch.inputs =
              at::empty(batch.inputs.sizes(), batch.inputs.options().dtype(*how.mixed_precision.param_dtype));
        return model->loss(batch).sum;
      });
} catch (const std::exception& error) {
  return {.unknown = error.what()};
}

}  // namespace shoal::train
