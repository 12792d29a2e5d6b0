// Where the elements of a tensor lie for whoever reads or fills the regions of a StateDict.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

#include "fsdp/state_memory.h"
#include "shard/state_dict.h"

namespace shoal::fsdp {

class RegionMemory {
 public:
  // Of contiguous `tensor`, whose copy is `state`'s. Reading in place sees what this thread has queued for the device
  // by now.
  RegionMemory(const at::Tensor& tensor, StateMemory memory, StateDict& state);

  // `count` elements from element `first` of the tensor, as the region that begins at element `begin` of another one.
  Region region(std::int64_t begin, std::int64_t count, std::int64_t first) const;

 private:
  class DeviceReader;

  std::int64_t width_;
  std::byte* host_ = nullptr;
  std::shared_ptr<DeviceReader> reader_;  // null where `host_` is not
};

}  // namespace shoal::fsdp
