// The sum of the squares of one shard of a gradient, for its norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace shoal::optim {
class DeviceSquares;
}

namespace shoal::fsdp {

// Of a tensor on the host, by LibTorch's threads. The order of the additions depends on its size alone.
double host_sum_of_squares(const at::Tensor& gradient);

// Of a shard that is about to leave its device: there it costs next to nothing, on the host it would be another reading
// of the whole gradient while nothing else can be done.
class ShardSquares {
 public:
  ShardSquares();
  ~ShardSquares();
  ShardSquares(const ShardSquares&) = delete;
  ShardSquares& operator=(const ShardSquares&) = delete;

  // Queued on the current stream of the shard's device. Nothing for types other than fp32 and fp64.
  void start(const at::Tensor& shard);
  // Of the shard of the last start(); none after clear(). Waits for it.
  std::optional<double> value();
  void clear();

 private:
  std::unique_ptr<optim::DeviceSquares> on_device_;  // made when a shard is first found on a GPU
  at::Device device_ = at::kCPU;
  bool started_ = false;
  double on_host_ = 0;
};

}  // namespace shoal::fsdp
