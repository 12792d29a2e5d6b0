#include "fsdp/device_step.h"

#include "core/check.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {
namespace {

using torch_internals::dtype_of;

std::vector<optim::DeviceSpan> spans_of(std::span<const TrainedFlat* const> flats) {
  std::vector<optim::DeviceSpan> spans;
  for (std::size_t i = 0; i < flats.size(); ++i)
    for (const auto& [group, elements] : flats[i]->spans)
      spans.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(group), elements.begin, elements.count});
  return spans;
}

optim::DeviceArrays arrays_of(const TrainedFlat& trained, const at::Tensor& gradient) {
  const at::Tensor &master = trained.flat->master(), &gathered = trained.flat->gathered_shard();
  optim::DeviceArrays arrays;
  arrays.param = master.data_ptr();
  if (gradient.defined()) arrays.grad = gradient.const_data_ptr();
  if (!trained.states.empty()) arrays.state0 = trained.states[0].data_ptr();
  if (trained.states.size() > 1) arrays.state1 = trained.states[1].data_ptr();
  if (!gathered.defined() || gathered.is_same(master)) return arrays;
  arrays.rounded = gathered.data_ptr();
  arrays.rounded_dtype = dtype_of(gathered.scalar_type());
  return arrays;
}

}  // namespace

DeviceStep::DeviceStep(std::span<const TrainedFlat* const> flats, at::ScalarType dtype)
    : flats_(flats.begin(), flats.end()), dtype_(dtype_of(dtype)), table_(spans_of(flats)) {}

void DeviceStep::run(const optim::Optimizer& rule, std::span<const at::Tensor> gradients,
                     std::span<const optim::GroupRule> groups, const StepFactors& factors) {
  SHOAL_ASSERT(gradients.size() == flats_.size());
  std::vector<optim::DeviceArrays> arrays;
  for (std::size_t i = 0; i < flats_.size(); ++i) arrays.push_back(arrays_of(*flats_[i], gradients[i]));
  std::vector<optim::GroupFactors> group_factors;
  for (const optim::GroupRule& group : groups)
    group_factors.push_back({group.weight_decay, factors.lr * group.lr_scale});
  rule.step(table_, dtype_, arrays, group_factors, factors.step, factors.grad_scale,
            torch_internals::current_stream(flats_[0]->flat->master().device()));
}

}  // namespace shoal::fsdp
