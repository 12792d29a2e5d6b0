#include "fsdp/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "fsdp/host_parts.h"
#include "fsdp/runtime.h"
#include "fsdp/shard_squares.h"
#include "optim/device_squares.h"

namespace shoal::fsdp {
namespace {

using torch_internals::dtype_of;

bool is_on_host(const std::vector<at::Tensor>& gradients) {
  return std::all_of(gradients.begin(), gradients.end(),
                     [](const at::Tensor& g) { return !g.defined() || g.is_cpu(); });
}

void add_host_squares(const std::vector<at::Tensor>& gradients, optim::ExactSumOfSquares& total) {
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    std::vector<optim::ExactSumOfSquares> partial(host_parts(gradient));
    for_each_host_part(gradient, [&](std::size_t i, const char* data, std::int64_t count) {
      partial[i].add(data, dtype_of(gradient.scalar_type()), count);
    });
    for (optim::ExactSumOfSquares& part : partial) total.add(part);
  }
}

std::vector<optim::DeviceValues> values_of(const std::vector<at::Tensor>& gradients) {
  std::vector<optim::DeviceValues> values(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) values[i] = {gradients[i].const_data_ptr(), dtype_of(gradients[i].scalar_type())};
  return values;
}

void* stream_of(const std::vector<at::Tensor>& gradients) {
  const auto there = std::find_if(gradients.begin(), gradients.end(), [](const at::Tensor& g) { return g.defined(); });
  return torch_internals::current_stream(there->device());
}

}  // namespace

GradientNorm::GradientNorm(Runtime& runtime) : runtime_(&runtime) {}
GradientNorm::~GradientNorm() = default;

// Of all trained shards, undefined where there is none.
std::vector<at::Tensor> GradientNorm::gradients() const {
  std::vector<at::Tensor> all;
  runtime_->for_each_flat([&](FlatParameter& flat) {
    if (flat.trained()) all.push_back(flat.gradient());
  });
  return all;
}

optim::DeviceSquares& GradientNorm::on_device() {
  if (!on_device_) {
    std::vector<std::int64_t> counts;
    runtime_->for_each_flat([&](const FlatParameter& flat) {
      if (flat.trained()) counts.push_back(flat.layout().shard_numel());
    });
    on_device_ = std::make_unique<optim::DeviceSquares>(counts);
  }
  return *on_device_;
}

// What was summed up while it was still on the device is not read again.
double GradientNorm::host_sum() {
  double sum = 0;
  runtime_->for_each_flat([&](FlatParameter& flat) {
    if (!flat.trained() || !flat.gradient().defined()) return;
    const std::optional<double> known = flat.gradients()->sum_of_squares();
    sum += known ? *known : host_sum_of_squares(flat.gradient());
  });
  return sum;
}

// Replicas hold the same gradient: only the first counts. All take part in summing it over them.
double GradientNorm::rounded_sum_of_squares() {
  const std::vector<at::Tensor> all = gradients();
  double sum = 0;
  if (runtime_->mesh().replicate().rank() == 0)
    sum = is_on_host(all) ? host_sum() : on_device().sum(values_of(all), stream_of(all));
  return comm::all_reduce(runtime_->mesh().world(), sum, comm::ReduceOp::sum);
}

double GradientNorm::exact_sum_of_squares() {
  const std::vector<at::Tensor> all = gradients();
  optim::ExactSumOfSquares sum;
  if (runtime_->mesh().replicate().rank() == 0) {
    if (is_on_host(all))
      add_host_squares(all, sum);
    else
      on_device().add_exactly(values_of(all), sum, stream_of(all));
  }
  runtime_->mesh().world().all_reduce(sum.limbs().data(), sum.kLimbs, DType::int64, comm::ReduceOp::sum)->wait();
  return sum.value();
}

double GradientNorm::value(double grad_scale) {
  const double sum = runtime_->options().deterministic ? exact_sum_of_squares() : rounded_sum_of_squares();
  return std::sqrt(sum) * std::abs(grad_scale);
}

}  // namespace shoal::fsdp
