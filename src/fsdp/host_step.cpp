#include "fsdp/host_step.h"

#include <algorithm>

#include "fsdp/torch_internals.h"
#include "optim/in_parallel.h"

namespace shoal::fsdp {
namespace {

// A part of a span below which another thread costs more than it gives.
constexpr std::int64_t kElementsAThread = 1 << 15;

void* at_element(const at::Tensor& array, std::int64_t index) {
  return static_cast<char*>(array.data_ptr()) + index * array.element_size();
}

optim::FlatSpan span_of(const HostArrays& arrays, Range elements) {
  optim::FlatSpan span;
  span.dtype = torch_internals::dtype_of(arrays.master.scalar_type());
  span.param = at_element(arrays.master, elements.begin);
  span.grad = at_element(arrays.gradient, elements.begin);
  for (const at::Tensor& state : arrays.states) span.state.push_back(at_element(state, elements.begin));
  if (arrays.rounded.defined()) {
    span.rounded = at_element(arrays.rounded, elements.begin);
    span.rounded_dtype = torch_internals::dtype_of(arrays.rounded.scalar_type());
  }
  span.count = elements.count;
  return span;
}

}  // namespace

void step_on_host(const optim::Optimizer& rule, const HostArrays& arrays, std::span<const GroupSpan> spans,
                  std::span<const optim::GroupRule> groups, const StepFactors& factors) {
  for (const auto& [group, elements] : spans) {
    const optim::GroupRule& how = groups[group];
    optim::in_parallel(elements.count, kElementsAThread,
                       [&, elements = elements](std::int64_t begin, std::int64_t end) {
                         optim::FlatSpan span = span_of(arrays, {elements.begin + begin, end - begin});
                         span.weight_decay = how.weight_decay;
                         rule.step(span, factors.step, factors.lr * how.lr_scale, factors.grad_scale);
                       });
  }
}

}  // namespace shoal::fsdp
