// Memory of the GPU for tests that know nothing of LibTorch.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace shoal::testing {

inline void succeed(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code); }

inline bool has_gpu() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

// `values`, with `offset` elements of poison before and after them: shards are not always where a vector load begins.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values, std::size_t offset = 0)
      : count_(values.size()), offset_(offset), all_(allocate((values.size() + 2 * offset) * sizeof(T)), cudaFree) {
    succeed(cudaMemset(all_.get(), kPoison, (count_ + 2 * offset_) * sizeof(T)));
    succeed(cudaMemcpy(data(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  T* data() const { return static_cast<T*>(all_.get()) + offset_; }

  std::vector<T> values() const {
    std::vector<T> copy(count_);
    succeed(cudaMemcpy(copy.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return copy;
  }
  bool poison_is_there() const {
    std::vector<unsigned char> bytes((count_ + 2 * offset_) * sizeof(T));
    succeed(cudaMemcpy(bytes.data(), all_.get(), bytes.size(), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if ((i < offset_ * sizeof(T) || i >= (offset_ + count_) * sizeof(T)) && bytes[i] != kPoison) return false;
    return true;
  }

 private:
  static constexpr unsigned char kPoison = 0xA7;
  static void* allocate(std::size_t bytes) {
    void* data = nullptr;
    succeed(cudaMalloc(&data, bytes > 0 ? bytes : 1));
    return data;
  }

  std::size_t count_, offset_;
  std::shared_ptr<void> all_;
};

// Milliseconds that what `work` queues on the default stream takes, the best of a few times.
template <typename Work>
double milliseconds(Work&& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  succeed(cudaEventCreate(&begin));
  succeed(cudaEventCreate(&end));
  float best = 1e9F;
  for (int i = 0; i < 10; ++i) {
    succeed(cudaEventRecord(begin));
    work();
    succeed(cudaEventRecord(end));
    succeed(cudaEventSynchronize(end));
    float now = 0;
    succeed(cudaEventElapsedTime(&now, begin, end));
    best = now < best ? now : best;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

}  // namespace shoal::testing
