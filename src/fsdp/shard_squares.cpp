#include "fsdp/shard_squares.h"

#include <array>
#include <cstddef>
#include <vector>

#include "fsdp/host_parts.h"
#include "fsdp/torch_internals.h"
#include "optim/device_squares.h"
#include "optim/reductions.h"

namespace shoal::fsdp {
namespace {

using torch_internals::current_stream;
using torch_internals::dtype_of;

}  // namespace

double host_sum_of_squares(const at::Tensor& gradient) {
  std::vector<double> partial(host_parts(gradient));
  for_each_host_part(gradient, [&](std::size_t i, const char* data, std::int64_t count) {
    partial[i] = optim::sum_of_squares(data, dtype_of(gradient.scalar_type()), count);
  });
  double sum = 0;
  for (const double part : partial) sum += part;
  return sum;
}

ShardSquares::ShardSquares() = default;
ShardSquares::~ShardSquares() = default;

void ShardSquares::start(const at::Tensor& shard) {
  started_ = shard.scalar_type() == at::kFloat || shard.scalar_type() == at::kDouble;
  if (!started_) return;
  device_ = shard.device();
  if (device_.is_cpu()) {
    on_host_ = host_sum_of_squares(shard);
    return;
  }
  const std::array counts{shard.numel()};
  if (!on_device_) on_device_ = std::make_unique<optim::DeviceSquares>(counts);
  const std::array arrays{optim::DeviceValues{shard.const_data_ptr(), dtype_of(shard.scalar_type())}};
  on_device_->start(arrays, current_stream(device_));
}

std::optional<double> ShardSquares::value() {
  if (!started_) return std::nullopt;
  return device_.is_cpu() ? on_host_ : on_device_->finish(current_stream(device_));
}

void ShardSquares::clear() { started_ = false; }

}  // namespace shoal::fsdp
