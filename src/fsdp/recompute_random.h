// Where the random number generators stand.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace shoal::fsdp {

class RandomState {
 public:
  // Of LibTorch's default generators: the CPU's and, where `device` is another, that of the device.
  static RandomState current(at::Device device);
  void restore() const;

 private:
  struct Generator {
    at::Device device;
    at::Tensor state;
  };
  std::vector<Generator> generators_;
};

}  // namespace shoal::fsdp
