// The first use of a GPU's libraries, while a start waits for other things.
//
// cuBLAS and cuDNN load their kernels, and cuDNN compiles some, when they are first called: up to seconds of a first
// step in which the GPU does nothing. Each process pays for this once, whatever the sizes.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <thread>

namespace shoal::train {

// What a model is going to call. Beside matrix products: attention where it has heads, else convolutions.
struct WarmUpPlan {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::int64_t heads = 0, kv_heads = 0, head_size = 0, sequence_length = 0;
};

class WarmUp {
 public:
  // Begins on a thread of its own; nothing for the CPU. Draws no random numbers. What libraries keep for each stream is
  // that of the default one, which training uses too.
  WarmUp(c10::Device device, const WarmUpPlan& plan);
  ~WarmUp() { finish(); }
  WarmUp(const WarmUp&) = delete;
  WarmUp& operator=(const WarmUp&) = delete;

  // Blocks until it is over and its memory is given back. What failed is no error here: the step that needs it says so.
  void finish();

 private:
  c10::Device device_;
  std::thread thread_;
};

}  // namespace shoal::train
