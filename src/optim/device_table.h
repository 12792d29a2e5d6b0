// Flat arrays on a GPU, cut into pieces of a block's work, so that one launch works through all arrays of a module.
//
// device_*.cpp and device_*.cu have what is declared in the headers device_*.h; no_device.cpp stands in where the build
// has no CUDA, and throws DeviceError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "shard/dtype.h"

namespace shoal::optim {

// Elements of one array that are treated alike.
struct DeviceSpan {
  std::int32_t array;  // a number of the caller's
  std::int32_t group;  // likewise
  std::int64_t begin, count;
};

// A block's part of a span. It begins where the span does, or at a multiple of its length.
struct DevicePiece {
  std::int32_t array, group;
  std::int64_t begin, end;
};

class DeviceTable {
 public:
  // Puts the pieces of `spans` into the memory of the current GPU, in their order.
  explicit DeviceTable(std::span<const DeviceSpan> spans);
  ~DeviceTable();
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  const DevicePiece* pieces() const;  // on the GPU
  std::int64_t size() const { return size_; }

  // Copies `bytes` bytes at `from`, which the caller may change at once, to the GPU in the order of `stream` (a
  // cudaStream_t). What an earlier call copied is overwritten: give all calls one stream.
  const void* upload(const void* from, std::size_t bytes, void* stream);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
  std::int64_t size_ = 0;
};

}  // namespace shoal::optim
