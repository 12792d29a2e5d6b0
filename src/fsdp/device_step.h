// A step of an optimizer over all flat shards of a module in the memory of a GPU, in one launch.
#pragma once

#include <span>
#include <vector>

#include "fsdp/trained_flat.h"
#include "optim/optimizer.h"

namespace shoal::fsdp {

class DeviceStep {
 public:
  // `flats` outlives this; all masters are of `dtype` and on one GPU.
  DeviceStep(std::span<const TrainedFlat* const> flats, at::ScalarType dtype);

  // `gradients` belong to the flats; undefined: that shard stays. The shards that are gathered are written as well.
  // Queued on the current stream.
  void run(const optim::Optimizer& rule, std::span<const at::Tensor> gradients,
           std::span<const optim::GroupRule> groups, const StepFactors& factors);

 private:
  std::vector<const TrainedFlat*> flats_;
  DType dtype_;
  optim::DeviceTable table_;
};

}  // namespace shoal::fsdp
