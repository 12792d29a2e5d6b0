// What the tests of NCCL share: a GPU a rank, groups made once, numbers that every type holds exactly.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "comm/mpi_process_group.h"
#include "comm/nccl_process_group.h"
#include "core/error.h"
#include "core/half.h"

namespace shoal::testing {

inline void check(cudaError_t code) {
  if (code != cudaSuccess) throw DeviceError("CUDA: {}", cudaGetErrorString(code));
}

// The GPUs that this rank sees; its own is the one of its number on the host.
inline int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpus() < control().size()) GTEST_SKIP() << "needs a GPU a rank";
    check(cudaSetDevice(control().rank()));
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    stream_.reset(made, [](cudaStream_t used) { cudaStreamDestroy(used); });
  }

  comm::ProcessGroup& control() { return control_; }
  cudaStream_t stream() const { return stream_.get(); }
  void finish() const { check(cudaStreamSynchronize(stream())); }
  // After a collective that never ends: CUDA waits for it in whatever would take the stream away.
  void leave_stream() { new std::shared_ptr<CUstream_st>(stream_); }
  std::unique_ptr<comm::ProcessGroup> make_world(comm::NcclOptions options = {}) {
    return comm::make_nccl_group(
        control(), control().rank(), [this] { return stream(); }, std::move(options));
  }

 private:
  comm::MpiProcessGroup control_{MPI_COMM_WORLD};
  std::shared_ptr<CUstream_st> stream_;
};

inline std::shared_ptr<void> plain_memory(std::int64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)));
  return {memory, [](void* used) { cudaFree(used); }};
}

using Bytes = std::vector<std::byte>;
using Values = std::vector<std::int64_t>;

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Small whole numbers as elements of any type.
inline Bytes encode(const Values& values, DType dtype) {
  const auto width = static_cast<std::size_t>(size_of(dtype));
  Bytes bytes(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::byte* at = bytes.data() + i * width;
    switch (dtype) {
      case DType::float64: put(at, static_cast<double>(values[i])); break;
      case DType::float32: put(at, static_cast<float>(values[i])); break;
      case DType::float16: put(at, to_float16(static_cast<float>(values[i]))); break;
      case DType::bfloat16: put(at, to_bfloat16(static_cast<float>(values[i]))); break;
      case DType::int64: put(at, values[i]); break;
      case DType::int32: put(at, static_cast<std::int32_t>(values[i])); break;
      case DType::int16: put(at, static_cast<std::int16_t>(values[i])); break;
      default: put(at, static_cast<std::uint8_t>(values[i])); break;
    }
  }
  return bytes;
}

inline Values decode(const Bytes& bytes, DType dtype) {
  const auto width = static_cast<std::size_t>(size_of(dtype));
  Values values;
  for (const std::byte* at = bytes.data(); at != bytes.data() + bytes.size(); at += width) {
    switch (dtype) {
      case DType::float64: values.push_back(static_cast<std::int64_t>(get<double>(at))); break;
      case DType::float32: values.push_back(static_cast<std::int64_t>(get<float>(at))); break;
      case DType::float16: values.push_back(static_cast<std::int64_t>(to_float(get<Float16>(at)))); break;
      case DType::bfloat16: values.push_back(static_cast<std::int64_t>(to_float(get<BFloat16>(at)))); break;
      case DType::int64: values.push_back(get<std::int64_t>(at)); break;
      case DType::int32: values.push_back(get<std::int32_t>(at)); break;
      case DType::int16: values.push_back(get<std::int16_t>(at)); break;
      default: values.push_back(get<std::uint8_t>(at)); break;
    }
  }
  return values;
}

}  // namespace shoal::testing
