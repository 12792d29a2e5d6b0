// Sums of squares of many arrays in the memory of a GPU: in one go, and with one wait of the host at most.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "optim/reductions.h"
#include "shard/dtype.h"

namespace shoal::optim {

struct DeviceValues {
  const void* data = nullptr;    // null: zeros
  DType dtype = DType::float32;  // float32 or float64
};

class DeviceSquares {
 public:
  // Of arrays of so many elements, on the current GPU.
  explicit DeviceSquares(std::span<const std::int64_t> counts);
  ~DeviceSquares();
  DeviceSquares(const DeviceSquares&) = delete;
  DeviceSquares& operator=(const DeviceSquares&) = delete;

  // Added up in double, in an order that the counts alone decide. Queued on `stream` (a cudaStream_t); finish() waits
  // for that stream and has the result of the last start().
  void start(std::span<const DeviceValues> arrays, void* stream);
  double finish(void* stream);
  double sum(std::span<const DeviceValues> arrays, void* stream) {
    start(arrays, stream);
    return finish(stream);
  }
  // Adds them to `total` without rounding: to the bit what ExactSumOfSquares::add() does with them. Waits likewise.
  void add_exactly(std::span<const DeviceValues> arrays, ExactSumOfSquares& total, void* stream);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace shoal::optim
